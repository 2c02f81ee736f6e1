variable "name" {
  description = "Name of the function."
  type        = string
  default     = "tidelake-ingest-queue"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{1,64}$", var.name))
    error_message = "A function's name has at most 64 letters, digits, hyphens and underscores."
  }
}

variable "store" {
  description = "Where the root lies: the output `store` of the storage module."
  type = object({
    url         = string
    bucket_arn  = string
    prefix      = string
    kms_key_arn = optional(string)
  })
  nullable = false

  validation {
    condition     = can(regex("^s3://[^/]+/.+$", var.store.url)) && can(regex("^arn:[a-z-]+:s3:::[^/*]+$", var.store.bucket_arn)) && endswith(var.store.url, "/${var.store.prefix}")
    error_message = "A store is the output store of the storage module: url is s3://BUCKET/PREFIX, bucket_arn is arn:aws:s3:::BUCKET."
  }
}

variable "package" {
  description = "The zip with `bootstrap`: a path, or `s3://BUCKET/KEY`."
  type        = string
  nullable    = false

  validation {
    condition     = endswith(var.package, ".zip") && (!startswith(var.package, "s3://") || can(regex("^s3://[^/]+/.+$", var.package)))
    error_message = "A package is a path that ends in .zip, or s3://BUCKET/KEY.zip."
  }
}

variable "architecture" {
  description = "What the zip was built for: x86_64 or arm64."
  type        = string
  default     = "x86_64"
  nullable    = false

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "The architecture is x86_64 or arm64."
  }
}

variable "memory" {
  description = "Memory in MB, 128 to 10240. Processor time comes with it: 1769 MB are one core."
  type        = number
  default     = 512
  nullable    = false

  validation {
    condition     = var.memory >= 128 && var.memory <= 10240 && floor(var.memory) == var.memory
    error_message = "A function has 128 to 10240 MB of memory."
  }
}

variable "timeout" {
  description = "Seconds after which an invocation is ended."
  type        = number
  default     = 60
  nullable    = false

  validation {
    condition     = var.timeout >= 3 && var.timeout <= 900 && floor(var.timeout) == var.timeout
    error_message = "An invocation may take 3 to 900 seconds."
  }
}

variable "reserved_concurrency" {
  description = "Invocations at once, kept from the account's other functions; -1 takes what is free, 0 stops the function."
  type        = number
  default     = -1
  nullable    = false

  validation {
    condition     = var.reserved_concurrency >= -1 && floor(var.reserved_concurrency) == var.reserved_concurrency
    error_message = "Reserved concurrency is -1, 0 or more."
  }
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
    condition     = var.visibility_timeout == null || try(var.visibility_timeout >= var.timeout && var.visibility_timeout <= 43200, false)
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

variable "environment" {
  description = "More settings, as environment variables of the function."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "log_level" {
  description = "What is logged, such as `info` or `tidelake_ingest=debug`."
  type        = string
  default     = "info"
  nullable    = false

  validation {
    condition     = alltrue([for part in split(",", lower(var.log_level)) : can(regex("^(([a-z0-9_:-]+|[a-z0-9_:-]*\\[[^\\],]*\\])=)?(off|error|warn|info|debug|trace)$", part))])
    error_message = "A level is error, warn, info, debug, trace or off; several for parts of the program are written like info,tidelake_ingest=debug."
  }
}

variable "log_retention_days" {
  description = "Days that logs are kept."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "CloudWatch keeps logs for 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731 or 1096 days, or whole years from 5 to 10."
  }
}

variable "tracing" {
  description = "Whether invocations are traced by X-Ray."
  type        = bool
  default     = false
  nullable    = false
}

variable "vpc" {
  description = "Subnets and security groups that the function runs in; none by default."
  type        = object({ subnet_ids = list(string), security_group_ids = list(string) })
  default     = null

  validation {
    condition     = var.vpc == null || try(length(var.vpc.subnet_ids) > 0 && length(var.vpc.security_group_ids) > 0 && alltrue([for id in var.vpc.subnet_ids : startswith(id, "subnet-")]) && alltrue([for id in var.vpc.security_group_ids : startswith(id, "sg-")]), false)
    error_message = "A function in a VPC has at least one subnet, subnet-…, and one security group, sg-…."
  }
}

variable "tags" {
  description = "Tags of every resource."
  type        = map(string)
  default     = {}
  nullable    = false
}
