output "ingest_url" {
  description = "Where rows are written to."
  value       = module.tidelake.ingest_url
}

output "query_url" {
  description = "Where SQL is asked in the first region."
  value       = module.tidelake.query_url
}

output "replica_query_url" {
  description = "Where SQL is asked of the copy."
  value       = module.replica_query.url
}

output "replica_store_url" {
  description = "The copy, for a server that only reads."
  value       = module.replica.url
}
