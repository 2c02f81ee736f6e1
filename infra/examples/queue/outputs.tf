output "queue_url" {
  description = "URL of the queue for rows."
  value       = module.tidelake.queue_url
}

output "dead_letter_url" {
  description = "URL of the dead-letter queue."
  value       = module.tidelake.dead_letter_url
}

output "ingest_url" {
  description = "Write URL (HTTP)."
  value       = module.tidelake.ingest_url
}

output "query_url" {
  description = "Query URL."
  value       = module.tidelake.query_url
}

output "store_url" {
  description = "The root, for `tidelake serve --store`."
  value       = module.tidelake.store_url
}

output "dashboard_name" {
  description = "Name of the dashboard."
  value       = module.tidelake.dashboard_name
}
