variable "function" {
  description = "The settings of the function, `store` and `package` at least: see [function](../function/README.md#settings). By default the name is `tidelake-ingest-queue`, with 512 MB of `memory` and a `timeout` of 60 seconds."
  type        = any
  nullable    = false
}

variable "format" {
  description = "What a message holds: `line` (line protocol), `opentsdb` (JSON of `/api/put`) or `tdengine` (INSERT)."
  type        = string
  default     = "line"
  nullable    = false

  validation {
    condition     = contains(["line", "opentsdb", "tdengine"], var.format)
    error_message = "format is line, opentsdb or tdengine."
  }
}

variable "other_formats" {
  description = "What a message may hold as well, where its attribute `format` says so: any of `line`, `opentsdb` and `tdengine`."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for format in var.other_formats : contains(["line", "opentsdb", "tdengine"], format)])
    error_message = "Formats are line, opentsdb and tdengine."
  }
}

variable "database" {
  description = "The database that rows go to: whoever may send messages may write to it."
  type        = string
  nullable    = false

  validation {
    condition     = length(var.database) >= 1 && length(var.database) <= 192
    error_message = "A database has a name of 1 to 192 bytes."
  }
}

variable "other_databases" {
  description = "Databases that messages may write to as well, where their attribute `db` or their statement names them; `*` is every database."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for database in var.other_databases : length(database) >= 1 && length(database) <= 192 && !strcontains(database, ",")])
    error_message = "A database has a name of 1 to 192 bytes, here without a comma."
  }
}

variable "precision" {
  description = "The unit of timestamps without one: ns, us, ms, s, m or h."
  type        = string
  default     = "ns"
  nullable    = false

  validation {
    condition     = contains(["ns", "us", "ms", "s", "m", "h"], var.precision)
    error_message = "precision is ns, us, ms, s, m or h."
  }
}

variable "dedup" {
  description = "Whether the ids of messages are idempotency keys: a message that is delivered again then changes nothing at all, for one more PUT a message. Otherwise it changes nothing unless its rows were overwritten or deleted in between."
  type        = bool
  default     = false
  nullable    = false
}

variable "kinesis_stream_arn" {
  description = "ARN of a Kinesis stream to read instead of a queue. The stream is made and paid elsewhere; only the queue of failures is made here."
  type        = string
  default     = null

  validation {
    condition     = var.kinesis_stream_arn == null || can(regex("^arn:[a-z-]+:kinesis:[a-z0-9-]+:[0-9]{12}:stream/", var.kinesis_stream_arn))
    error_message = "A stream is named by its ARN, arn:aws:kinesis:REGION:ACCOUNT:stream/NAME."
  }
}

variable "starting_position" {
  description = "Where a new reader of the Kinesis stream begins: `TRIM_HORIZON`, with all that it keeps, or `LATEST`."
  type        = string
  default     = "TRIM_HORIZON"
  nullable    = false

  validation {
    condition     = contains(["TRIM_HORIZON", "LATEST"], var.starting_position)
    error_message = "starting_position is TRIM_HORIZON or LATEST."
  }
}

variable "parallelization_factor" {
  description = "Batches of one Kinesis shard at once."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.parallelization_factor >= 1 && var.parallelization_factor <= 10 && floor(var.parallelization_factor) == var.parallelization_factor
    error_message = "A shard has 1 to 10 batches at once."
  }
}

variable "fifo" {
  description = "Whether the queue keeps the order within message groups. A FIFO queue hands out at most 10 messages at once."
  type        = bool
  default     = false
  nullable    = false

  validation {
    condition     = !var.fifo || var.kinesis_stream_arn == null
    error_message = "fifo is for a queue, not for a stream."
  }
}

variable "batch_size" {
  description = "Messages of one invocation, which become one segment, at most; by default 10 with FIFO, otherwise 1000."
  type        = number
  default     = null

  validation {
    condition     = var.batch_size == null || try(var.batch_size >= 1 && var.batch_size <= (var.fifo ? 10 : 10000) && floor(var.batch_size) == var.batch_size, false)
    error_message = "A batch has 1 to 10 messages with FIFO, otherwise 1 to 10000."
  }
}

variable "batch_seconds" {
  description = "How long Lambda waits for more messages, in seconds. Each batch costs a PUT, and waiting delays only who reads. A FIFO queue does not wait."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.batch_seconds >= 0 && var.batch_seconds <= 300 && floor(var.batch_seconds) == var.batch_seconds
    error_message = "Lambda waits for 0 to 300 seconds."
  }
}

variable "maximum_concurrency" {
  description = "Invocations at once for the queue; by default as many as Lambda starts."
  type        = number
  default     = null

  validation {
    condition     = var.maximum_concurrency == null || try(var.maximum_concurrency >= 2 && var.maximum_concurrency <= 1000, false)
    error_message = "Lambda takes 2 to 1000."
  }
}

variable "max_receive_count" {
  description = "Deliveries after which a message goes to the dead letters; of a stream, tries after which a batch does."
  type        = number
  default     = 5
  nullable    = false

  validation {
    condition     = var.max_receive_count >= 1 && var.max_receive_count <= 1000 && floor(var.max_receive_count) == var.max_receive_count
    error_message = "A message is delivered 1 to 1000 times."
  }
}

variable "visibility_timeout" {
  description = "Seconds that a message is hidden after a delivery; by default six times the timeout, as AWS advises, and batch_seconds."
  type        = number
  default     = null

  validation {
    condition     = var.visibility_timeout == null || try(var.visibility_timeout >= local.function.timeout && var.visibility_timeout <= 43200, false)
    error_message = "A message is hidden at least as long as an invocation may take, and at most 43200 seconds."
  }
}

variable "message_retention_days" {
  description = "Days that the queue keeps messages. Dead letters are kept for 14."
  type        = number
  default     = 4
  nullable    = false

  validation {
    condition     = var.message_retention_days >= 1 && var.message_retention_days <= 14 && floor(var.message_retention_days) == var.message_retention_days
    error_message = "SQS keeps messages for 1 to 14 days."
  }
}

variable "source_kms_key_arn" {
  description = "ARN of the KMS key that encrypts the queues made here, or the stream. By default SQS encrypts with keys of its own, which cost nothing."
  type        = string
  default     = null

  validation {
    condition     = var.source_kms_key_arn == null || can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/", var.source_kms_key_arn))
    error_message = "A KMS key is named by its ARN, arn:aws:kms:REGION:ACCOUNT:key/ID."
  }
}

variable "auto_create_database" {
  description = "Whether a write to an unknown database creates it."
  type        = bool
  default     = true
  nullable    = false
}
