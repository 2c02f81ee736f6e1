output "function" {
  description = "The function for the observability module: name, timeout and log group."
  value = {
    name      = module.function.name
    timeout   = module.function.timeout
    log_group = module.function.log_group
  }
}

output "arn" {
  description = "ARN of the function."
  value       = module.function.arn
}

output "role_arn" {
  description = "ARN of the function's role."
  value       = module.function.role_arn
}

output "policy" {
  description = "The role's policy, as JSON."
  value       = module.function.policy
}

output "environment" {
  description = "Environment variables of the function."
  value       = module.function.environment
}

output "queue_url" {
  description = "URL of the queue; null with a stream."
  value       = try(aws_sqs_queue.this[0].url, null)
}

output "queue_arn" {
  description = "ARN of the queue; null with a stream."
  value       = try(aws_sqs_queue.this[0].arn, null)
}

output "queue_name" {
  description = "Name of the queue; null with a stream."
  value       = try(aws_sqs_queue.this[0].name, null)
}

output "dead_letter_url" {
  description = "URL of the dead-letter queue."
  value       = aws_sqs_queue.dead.url
}

output "dead_letter_name" {
  description = "Name of the dead-letter queue."
  value       = aws_sqs_queue.dead.name
}

output "stream" {
  description = "Whether the function reads a stream."
  value       = local.stream
}
