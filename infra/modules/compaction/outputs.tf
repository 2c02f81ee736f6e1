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

output "interval_seconds" {
  description = "Seconds from one scheduled run to the next; null without a schedule, and with `cron(…)`, which does not say."
  value       = local.interval
}

output "schedules" {
  description = "When each task is started, by its name."
  value       = { for task, schedule in local.schedules : task => schedule.expression }
}

output "schedule" {
  description = "Name of the rule that starts it; null without a schedule."
  value       = try(aws_cloudwatch_event_rule.schedule["compact"].name, null)
}
