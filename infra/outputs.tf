output "bucket" {
  description = "Name of the bucket."
  value       = module.storage.bucket
}

output "bucket_arn" {
  description = "ARN of the bucket."
  value       = module.storage.bucket_arn
}

output "store_url" {
  description = "The root, as `tidelake serve --store` takes it."
  value       = module.storage.url
}

output "ingest_url" {
  description = "Where rows are written to; null where it was left out, as all below."
  value       = one(module.ingest[*].url)
}

output "query_url" {
  description = "Where SQL is asked over HTTP."
  value       = one(module.query[*].url)
}

output "queue_url" {
  description = "URL of the queue that rows are sent to; null with a stream."
  value       = one(module.queue[*].queue_url)
}

output "dead_letter_url" {
  description = "URL of the queue of messages that could not be stored."
  value       = one(module.queue[*].dead_letter_url)
}

output "flight_endpoint" {
  description = "Host and port of Flight SQL, over TLS."
  value       = one(module.flight[*].endpoint)
}

output "flight_load_balancer" {
  description = "What the host name of Flight SQL has to be an alias of."
  value       = one(module.flight[*].load_balancer)
}

output "jdbc_url" {
  description = "The URL for the JDBC driver of Arrow Flight SQL."
  value       = one(module.flight[*].jdbc_url)
}

output "functions" {
  description = "Names of the functions, by the name of their zip."
  value       = { for name, part in local.functions : name => part.function.name }
}

output "log_groups" {
  description = "Names of the log groups, by the name of the zip, and `flight`."
  value = merge(
    { for name, part in local.functions : name => part.function.log_group },
    { for part in module.flight : "flight" => part.log_group },
  )
}

output "role_arns" {
  description = "ARNs of the roles, by the name of the zip, and `flight`."
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
  description = "The environment variables of functions and servers."
  value = merge(
    { for name, part in local.functions : name => part.environment },
    { for part in module.flight : "flight" => part.environment },
  )
}

output "client_policy" {
  description = "A policy for who signs requests to the URLs, as JSON."
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
  description = "A policy for another engine that reads the data files and nothing else of the root, as JSON."
  value       = jsonencode({ Version = "2012-10-17", Statement = module.access.data })
}

output "topic_arn" {
  description = "ARN of the topic that alarms tell."
  value       = one(module.observability[*].topic_arn)
}

output "dashboard_name" {
  description = "Name of the dashboard."
  value       = one(module.observability[*].dashboard_name)
}
