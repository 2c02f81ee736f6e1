output "log_group" {
  description = "The log group of another function than the one with the sensitive setting."
  value       = module.tidelake.log_groups["compact"]
}

output "functions" {
  description = "The names of all functions."
  value       = module.tidelake.functions
}
