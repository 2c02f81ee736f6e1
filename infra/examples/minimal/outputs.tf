output "ingest_url" {
  description = "Where rows are written to."
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

output "client_policy" {
  description = "A policy for who signs requests to the URLs."
  value       = module.tidelake.client_policy
}
