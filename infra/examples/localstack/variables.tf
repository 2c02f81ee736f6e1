variable "name" {
  description = "Prefix of the names of all resources."
  type        = string
  default     = "tidelake"
}

variable "packages" {
  description = "Directory of the zips; by default that of `cargo xtask package`."
  type        = string
  default     = "../../../target/package"
}

variable "architecture" {
  description = "Architecture of the zips and of the machine that runs LocalStack: x86_64 or arm64."
  type        = string
  default     = "x86_64"
}

variable "queue_database" {
  description = "Database of the queue's rows."
  type        = string
  default     = "queue"
}

variable "queue_precision" {
  description = "Unit of timestamps in line protocol messages."
  type        = string
  default     = "ns"
}

variable "queue_fifo" {
  description = "Whether the queue is FIFO."
  type        = bool
  default     = false
}

variable "queue_dedup" {
  description = "Whether message IDs are idempotency keys."
  type        = bool
  default     = true
}

variable "schedule" {
  description = "Schedule of compaction."
  type        = string
  default     = "rate(1 minute)"
}

variable "token_secret_arn" {
  description = "ARN of a secret with tokens; null admits everybody, because LocalStack does not verify signatures."
  type        = string
  default     = null
}

variable "alarms" {
  description = "Whether to create the alarms."
  type        = bool
  default     = false
}

variable "environment" {
  description = "Additional settings of all functions."
  type        = map(string)
  default     = {}
}

variable "log_level" {
  description = "Log filter of the functions."
  type        = string
  default     = "info"
}
