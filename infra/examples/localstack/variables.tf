variable "name" {
  description = "Begins the names of what is made."
  type        = string
  default     = "tidelake"
}

variable "packages" {
  description = "Directory of the zips, by default that of `cargo xtask package`."
  type        = string
  default     = "../../../target/package"
}

variable "architecture" {
  description = "What the zips were built for, as the machine that LocalStack runs on: x86_64 or arm64."
  type        = string
  default     = "x86_64"
}

variable "queue_database" {
  description = "The database that rows of the queue go to."
  type        = string
  default     = "queue"
}

variable "queue_precision" {
  description = "The unit of times in messages of line protocol."
  type        = string
  default     = "ns"
}

variable "queue_fifo" {
  description = "Whether the queue is FIFO."
  type        = bool
  default     = false
}

variable "queue_dedup" {
  description = "Whether the ids of messages are idempotency keys."
  type        = bool
  default     = true
}

variable "schedule" {
  description = "When compaction runs."
  type        = string
  default     = "rate(1 minute)"
}

variable "token_secret_arn" {
  description = "ARN of a secret with tokens; null lets in everybody, since LocalStack looks at no signatures."
  type        = string
  default     = null
}

variable "alarms" {
  description = "Whether to make the alarms."
  type        = bool
  default     = false
}

variable "environment" {
  description = "More settings of all functions."
  type        = map(string)
  default     = {}
}

variable "log_level" {
  description = "What the functions log."
  type        = string
  default     = "info"
}
