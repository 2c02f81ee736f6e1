output "write" {
  description = "Policy statements of a writing process: read all, create versions and segments."
  value       = concat(local.look, local.create, local.decrypt, local.encrypt)
}

output "compact" {
  description = "Policy statements of a compacting process, which folds, merges and collects garbage: all objects of the root. Include those of `write`."
  value       = concat(local.look, local.change, local.decrypt, local.encrypt)
}

output "query" {
  description = "Policy statements of a read-only process: read all, put large results."
  value       = concat(local.look, local.keep_result, local.decrypt, local.encrypt)
}

output "data" {
  description = "Policy statements of another engine, which reads only data files: neither metadata, with users and password hashes, nor the log."
  value       = concat(local.data, local.decrypt)
}
