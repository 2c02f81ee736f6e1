output "ingest_url" {
  description = "Write URL."
  value       = module.tidelake.ingest_url
}

output "query_url" {
  description = "Query URL in the first region."
  value       = module.tidelake.query_url
}

output "replica_query_url" {
  description = "Query URL of the copy."
  value       = module.replica_query.url
}

output "replica_store_url" {
  description = "The replica's root, for a read-only server."
  value       = module.replica.url
}
