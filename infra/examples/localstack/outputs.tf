output "bucket" {
  description = "Name of the bucket."
  value       = module.tidelake.bucket
}

output "store_url" {
  description = "The root, for `tidelake serve --store`."
  value       = module.tidelake.store_url
}

output "ingest_url" {
  description = "Write URL."
  value       = module.tidelake.ingest_url
}

output "query_url" {
  description = "Query URL."
  value       = module.tidelake.query_url
}

output "queue_url" {
  description = "URL of the queue."
  value       = module.tidelake.queue_url
}

output "dead_letter_url" {
  description = "URL of the dead-letter queue."
  value       = module.tidelake.dead_letter_url
}

output "functions" {
  description = "Names of the functions, by zip name."
  value       = module.tidelake.functions
}

output "log_groups" {
  description = "Names of the log groups, by zip name."
  value       = module.tidelake.log_groups
}

output "policies" {
  description = "The policies of the functions' roles, as JSON."
  value       = module.tidelake.policies
}
