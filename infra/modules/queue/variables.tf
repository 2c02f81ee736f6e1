variable "function" {
  description = "The settings of the function, `store` and `package` at least: see [function](../function/README.md#settings). By default the name is `tidelake-ingest-queue`, with 512 MB of `memory` and a `timeout` of 60 seconds."
  type        = any
  nullable    = false
}

variable "format" {
  description = "Format of messages: `line` (line protocol), `opentsdb` (JSON of `/api/put`) or `tdengine` (INSERT)."
  type        = string
  default     = "line"
  nullable    = false

  validation {
    condition     = contains(["line", "opentsdb", "tdengine"], var.format)
    error_message = "Invalid format: expected line, opentsdb or tdengine."
  }
}

variable "other_formats" {
  description = "Further formats that a message may select by its attribute `format`: any of `line`, `opentsdb` and `tdengine`."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for format in var.other_formats : contains(["line", "opentsdb", "tdengine"], format)])
    error_message = "Invalid formats: expected line, opentsdb and tdengine."
  }
}

variable "database" {
  description = "Database of the rows: every sender of messages may write to it."
  type        = string
  nullable    = false

  validation {
    condition     = length(var.database) >= 1 && length(var.database) <= 192
    error_message = "Invalid name of a database: expected 1 to 192 bytes."
  }
}

variable "other_databases" {
  description = "Further databases that messages may select by their attribute `db` or in their statement; `*` is every database."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for database in var.other_databases : length(database) >= 1 && length(database) <= 192 && !strcontains(database, ",")])
    error_message = "Invalid name of a database: expected 1 to 192 bytes without comma."
  }
}

variable "precision" {
  description = "Default unit of timestamps: ns, us, ms, s, m or h."
  type        = string
  default     = "ns"
  nullable    = false

  validation {
    condition     = contains(["ns", "us", "ms", "s", "m", "h"], var.precision)
    error_message = "Invalid precision: expected ns, us, ms, s, m or h."
  }
}

variable "dedup" {
  description = "Whether message IDs are idempotency keys: then a redelivered message has no effect, at the cost of one more PUT per message. Otherwise it has no effect unless its rows were overwritten or deleted in between."
  type        = bool
  default     = false
  nullable    = false
}

variable "kinesis_stream_arn" {
  description = "ARN of a Kinesis stream to read instead of a queue. The stream is created elsewhere; only its dead-letter queue is created here."
  type        = string
  default     = null

  validation {
    condition     = var.kinesis_stream_arn == null || can(regex("^arn:[a-z-]+:kinesis:[a-z0-9-]+:[0-9]{12}:stream/", var.kinesis_stream_arn))
    error_message = "Invalid stream: expected an ARN, arn:aws:kinesis:REGION:ACCOUNT:stream/NAME."
  }
}

variable "starting_position" {
  description = "Start position of a new reader of the Kinesis stream: `TRIM_HORIZON`, the oldest record, or `LATEST`."
  type        = string
  default     = "TRIM_HORIZON"
  nullable    = false

  validation {
    condition     = contains(["TRIM_HORIZON", "LATEST"], var.starting_position)
    error_message = "Invalid starting_position: expected TRIM_HORIZON or LATEST."
  }
}

variable "parallelization_factor" {
  description = "Number of concurrent batches per Kinesis shard."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.parallelization_factor >= 1 && var.parallelization_factor <= 10 && floor(var.parallelization_factor) == var.parallelization_factor
    error_message = "Invalid parallelization_factor: expected 1 to 10."
  }
}

variable "fifo" {
  description = "Whether the queue keeps the order within message groups. A FIFO queue delivers at most 10 messages at once."
  type        = bool
  default     = false
  nullable    = false

  validation {
    condition     = !var.fifo || var.kinesis_stream_arn == null
    error_message = "fifo applies only to a queue, not to a stream."
  }
}

variable "batch_size" {
  description = "Maximum number of messages per invocation, which become one segment; by default 10 with FIFO, otherwise 1000."
  type        = number
  default     = null

  validation {
    condition     = var.batch_size == null || try(var.batch_size >= 1 && var.batch_size <= (var.fifo ? 10 : 10000) && floor(var.batch_size) == var.batch_size, false)
    error_message = "Invalid batch_size: expected 1 to 10 messages with FIFO, otherwise 1 to 10000."
  }
}

variable "batch_seconds" {
  description = "Seconds that Lambda waits for more messages. Each batch costs a PUT, and waiting only delays visibility to readers. Not for FIFO queues."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.batch_seconds >= 0 && var.batch_seconds <= 300 && floor(var.batch_seconds) == var.batch_seconds
    error_message = "Invalid batch_seconds: expected 0 to 300."
  }
}

variable "maximum_concurrency" {
  description = "Maximum concurrency for the queue; by default unlimited."
  type        = number
  default     = null

  validation {
    condition     = var.maximum_concurrency == null || try(var.maximum_concurrency >= 2 && var.maximum_concurrency <= 1000, false)
    error_message = "Invalid maximum concurrency: expected 2 to 1000."
  }
}

variable "max_receive_count" {
  description = "Number of deliveries after which a message goes to the dead letters; for a stream, number of attempts per batch."
  type        = number
  default     = 5
  nullable    = false

  validation {
    condition     = var.max_receive_count >= 1 && var.max_receive_count <= 1000 && floor(var.max_receive_count) == var.max_receive_count
    error_message = "Invalid max_receive_count: expected 1 to 1000."
  }
}

variable "visibility_timeout" {
  description = "Visibility timeout in seconds; by default six times the timeout, as AWS advises, plus batch_seconds."
  type        = number
  default     = null

  validation {
    condition     = var.visibility_timeout == null || try(var.visibility_timeout >= local.function.timeout && var.visibility_timeout <= 43200, false)
    error_message = "Invalid visibility timeout: expected at least the function's timeout and at most 43200 seconds."
  }
}

variable "message_retention_days" {
  description = "Retention of messages in days. Dead letters are kept for 14 days."
  type        = number
  default     = 4
  nullable    = false

  validation {
    condition     = var.message_retention_days >= 1 && var.message_retention_days <= 14 && floor(var.message_retention_days) == var.message_retention_days
    error_message = "Invalid retention: expected 1 to 14 days."
  }
}

variable "source_kms_key_arn" {
  description = "ARN of the KMS key that encrypts the queues created here, or the stream. By default SQS encrypts with its own keys, which are free."
  type        = string
  default     = null

  validation {
    condition     = var.source_kms_key_arn == null || can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/", var.source_kms_key_arn))
    error_message = "Invalid KMS key: expected an ARN, arn:aws:kms:REGION:ACCOUNT:key/ID."
  }
}

variable "auto_create_database" {
  description = "Whether a write to an unknown database creates it."
  type        = bool
  default     = true
  nullable    = false
}
