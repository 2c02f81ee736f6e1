output "write" {
  description = "Statements for a process that takes rows: read all, create versions and segments."
  value       = concat(local.look, local.create, local.decrypt, local.encrypt)
}

output "compact" {
  description = "Statements for a process that folds, merges and collects: all objects of the root. Those of `write` are among them."
  value       = concat(local.look, local.change, local.decrypt, local.encrypt)
}

output "query" {
  description = "Statements for a process that only reads: read all, put large results."
  value       = concat(local.look, local.keep_result, local.decrypt, local.encrypt)
}

output "data" {
  description = "Statements for another engine that reads the data files and nothing else: neither metadata, where users and hashes of passwords are, nor the log."
  value       = concat(local.data, local.decrypt)
}
