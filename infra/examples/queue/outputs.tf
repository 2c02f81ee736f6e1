output "queue_url" {
  description = "URL of the queue that rows are sent to."
  value       = module.tidelake.queue_url
}

output "dead_letter_url" {
  description = "URL of the queue of messages that could not be stored."
  value       = module.tidelake.dead_letter_url
}

output "ingest_url" {
  description = "Where rows are written to over HTTP."
  value       = module.tidelake.ingest_url
}

output "query_url" {
  description = "Where SQL is asked."
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
