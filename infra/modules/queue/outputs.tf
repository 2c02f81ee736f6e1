output "function" {
  description = "The function, as the observability module takes it: name, timeout and log group."
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
  description = "ARN of the role that the function runs as."
  value       = module.function.role_arn
}

output "policy" {
  description = "The role's policy, as JSON."
  value       = module.function.policy
}

output "environment" {
  description = "The environment variables that the function gets."
  value       = module.function.environment
}

output "queue_url" {
  description = "URL of the queue to send messages to; null with a stream."
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
  description = "URL of the queue of dead letters."
  value       = aws_sqs_queue.dead.url
}

output "dead_letter_name" {
  description = "Name of the queue of dead letters."
  value       = aws_sqs_queue.dead.name
}

output "stream" {
  description = "Whether it reads a stream."
  value       = local.stream
}
