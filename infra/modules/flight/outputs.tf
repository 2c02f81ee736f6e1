output "endpoint" {
  description = "Host and port of Flight SQL and HTTP, over TLS."
  value       = "${var.hostname}:${var.port}"
}

output "jdbc_url" {
  description = "The URL for the JDBC driver of Arrow Flight SQL; `&database=DB` may follow."
  value       = "jdbc:arrow-flight-sql://${var.hostname}:${var.port}?useEncryption=true"
}

output "load_balancer" {
  description = "Name of the load balancer in DNS, what `hostname` has to be an alias of."
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
  description = "ARN of the role that tasks run as."
  value       = aws_iam_role.task.arn
}

output "policy" {
  description = "That role's policy, as JSON."
  value       = local.policy
}

output "environment" {
  description = "The environment variables that the server gets."
  value       = local.environment
}

output "log_group" {
  description = "Name of the log group."
  value       = aws_cloudwatch_log_group.this.name
}
