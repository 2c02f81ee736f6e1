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

output "interval_seconds" {
  description = "Seconds between scheduled runs; null without a schedule and for `cron(…)`, from which they cannot be derived."
  value       = local.interval
}

output "schedules" {
  description = "Schedule of each task, by name."
  value       = { for task, schedule in local.schedules : task => schedule.expression }
}

output "schedule" {
  description = "Name of the EventBridge rule; null without a schedule."
  value       = try(aws_cloudwatch_event_rule.schedule["compact"].name, null)
}
