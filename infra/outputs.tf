output "bucket" {
  description = "Name of the bucket."
  value       = module.storage.bucket
}

output "bucket_arn" {
  description = "ARN of the bucket."
  value       = module.storage.bucket_arn
}

output "store_url" {
  description = "URL of the root for `tidelake serve --store`."
  value       = module.storage.url
}

output "ingest_url" {
  description = "Write URL; this and the outputs below are null if the part is omitted."
  value       = one(module.ingest[*].url)
}

output "query_url" {
  description = "Query URL (SQL over HTTP)."
  value       = one(module.query[*].url)
}

output "queue_url" {
  description = "URL of the queue for rows; null with a stream."
  value       = one(module.queue[*].queue_url)
}

output "dead_letter_url" {
  description = "URL of the dead-letter queue."
  value       = one(module.queue[*].dead_letter_url)
}

output "flight_endpoint" {
  description = "Host and port of Flight SQL, over TLS."
  value       = one(module.flight[*].endpoint)
}

output "flight_load_balancer" {
  description = "DNS name of which the host name of Flight SQL must be an alias."
  value       = one(module.flight[*].load_balancer)
}

output "jdbc_url" {
  description = "The URL for the JDBC driver of Arrow Flight SQL."
  value       = one(module.flight[*].jdbc_url)
}

output "functions" {
  description = "Names of the functions, by zip name."
  value       = { for name, part in local.functions : name => part.function.name }
}

output "log_groups" {
  description = "Names of the log groups, by zip name, and `flight`."
  value = merge(
    { for name, part in local.functions : name => part.function.log_group },
    { for part in module.flight : "flight" => part.log_group },
  )
}

output "role_arns" {
  description = "ARNs of the roles, by zip name, and `flight`."
  value = merge(
    { for name, part in local.functions : name => part.role_arn },
    { for part in module.flight : "flight" => part.role_arn },
  )
}

output "policies" {
  description = "The policies of those roles, as JSON."
  value = merge(
    { for name, part in local.functions : name => part.policy },
    { for part in module.flight : "flight" => part.policy },
  )
}

output "environments" {
  description = "Environment variables of functions and servers."
  value = merge(
    { for name, part in local.functions : name => part.environment },
    { for part in module.flight : "flight" => part.environment },
  )
}

output "client_policy" {
  description = "Policy for callers that sign requests to the URLs, as JSON."
  value = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "AskTidelake"
        Effect   = "Allow"
        Action   = ["lambda:InvokeFunctionUrl", "lambda:InvokeFunction"]
        Resource = concat(module.ingest[*].arn, module.query[*].arn)
      },
    ]
  })
}

output "data_policy" {
  description = "Policy for another engine that reads only the root's data files, as JSON."
  value       = jsonencode({ Version = "2012-10-17", Statement = module.access.data })
}

output "topic_arn" {
  description = "ARN of the alarm topic."
  value       = one(module.observability[*].topic_arn)
}

output "dashboard_name" {
  description = "Name of the dashboard."
  value       = one(module.observability[*].dashboard_name)
}
