output "ingest_url" {
  description = "Write URL."
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

output "client_policy" {
  description = "Policy for callers that sign requests to the URLs."
  value       = module.tidelake.client_policy
}
