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

output "url" {
  description = "Query URL, with `/api/v1/sql` and `/rest/sql` below it."
  value       = module.function.url
}
