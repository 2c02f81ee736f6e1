output "endpoint" {
  description = "Host and port of Flight SQL and HTTP, over TLS."
  value       = "${var.hostname}:${var.port}"
}

output "jdbc_url" {
  description = "The URL for the JDBC driver of Arrow Flight SQL; `&database=DB` may follow."
  value       = "jdbc:arrow-flight-sql://${var.hostname}:${var.port}?useEncryption=true"
}

output "load_balancer" {
  description = "DNS name of the load balancer, of which `hostname` must be an alias."
  value       = aws_lb.this.dns_name
}

output "discovery_name" {
  description = "Name of the tasks within the VPC, port 8086 and without TLS; null without service discovery."
  value       = var.namespace == null ? null : "${var.name}.${var.namespace}"
}

output "cluster" {
  description = "Name of the cluster."
  value       = aws_ecs_cluster.this.name
}

output "service" {
  description = "Name of the service."
  value       = aws_ecs_service.this.name
}

output "role_arn" {
  description = "ARN of the tasks' role."
  value       = aws_iam_role.task.arn
}

output "policy" {
  description = "Policy of the tasks' role, as JSON."
  value       = local.policy
}

output "environment" {
  description = "Environment variables of the server."
  value       = local.environment
}

output "log_group" {
  description = "Name of the log group."
  value       = aws_cloudwatch_log_group.this.name
}
