output "jdbc_url" {
  description = "The URL for the JDBC driver of Arrow Flight SQL."
  value       = module.tidelake.jdbc_url
}

output "flight_endpoint" {
  description = "Host and port of Flight SQL, over TLS."
  value       = module.tidelake.flight_endpoint
}

output "flight_load_balancer" {
  description = "DNS name of which hostname must be an alias."
  value       = module.tidelake.flight_load_balancer
}

output "ingest_url" {
  description = "Write URL (HTTP)."
  value       = module.tidelake.ingest_url
}

output "query_url" {
  description = "Query URL (SQL over HTTP)."
  value       = module.tidelake.query_url
}

output "store_url" {
  description = "The root, for `tidelake serve --store`."
  value       = module.tidelake.store_url
}
