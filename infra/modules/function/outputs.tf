output "name" {
  description = "Name of the function, the dimension `FunctionName` of its metrics."
  value       = aws_lambda_function.this.function_name
}

output "arn" {
  description = "ARN of the function."
  value       = aws_lambda_function.this.arn
}

output "url" {
  description = "URL of the function, without trailing slash; null if there is none."
  value       = try(trimsuffix(aws_lambda_function_url.this[0].function_url, "/"), null)
}

output "timeout" {
  description = "Timeout of an invocation in seconds."
  value       = var.settings.timeout
}

output "role_arn" {
  description = "ARN of the function's role."
  value       = aws_iam_role.this.arn
}

output "policy" {
  description = "The role's policy, as JSON."
  value       = local.policy
}

output "log_group" {
  description = "Name of the log group."
  value       = aws_cloudwatch_log_group.this.name
}

output "environment" {
  description = "Environment variables of the function."
  value       = local.variables
}
