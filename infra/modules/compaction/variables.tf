variable "name" {
  description = "Name of the function."
  type        = string
  default     = "tidelake-compact"
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
  default     = 1024
  nullable    = false

  validation {
    condition     = var.memory >= 128 && var.memory <= 10240 && floor(var.memory) == var.memory
    error_message = "A function has 128 to 10240 MB of memory."
  }
}

variable "timeout" {
  description = "Seconds after which a run is ended. A run stops by itself some time before and leaves the rest to the next."
  type        = number
  default     = 300
  nullable    = false

  validation {
    condition     = var.timeout >= 30 && var.timeout <= 900 && floor(var.timeout) == var.timeout
    error_message = "An invocation may take 30 to 900 seconds."
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

variable "schedule" {
  description = "When it runs: `rate(…)` or `cron(…)` of EventBridge; null never, only on demand. Rows are seen at once in any case; each run reads the log, and what is not folded makes queries slower."
  type        = string
  default     = "rate(1 minute)"

  validation {
    condition     = var.schedule == null || can(regex("^(rate\\(1 (minute|hour|day)\\)|rate\\(([2-9]|[1-9][0-9]+) (minutes|hours|days)\\)|cron\\(\\S+ \\S+ (\\? \\S+ \\S+|\\S+ \\S+ \\?) \\S+\\))$", var.schedule))
    error_message = "A schedule is rate(1 minute), rate(N minutes) with N from 2 on, hours or days alike, or cron(…) with six fields, of which the day of the month or that of the week is ?."
  }
}

variable "collect_schedule" {
  description = "When it deletes what no version needs any more; on an idle root that ends at once. Null never; without `schedule` neither."
  type        = string
  default     = "rate(1 hour)"

  validation {
    condition     = var.collect_schedule == null || can(regex("^(rate\\(1 (minute|hour|day)\\)|rate\\(([2-9]|[1-9][0-9]+) (minutes|hours|days)\\)|cron\\(\\S+ \\S+ (\\? \\S+ \\S+|\\S+ \\S+ \\?) \\S+\\))$", var.collect_schedule))
    error_message = "A schedule is rate(1 minute), rate(N minutes) with N from 2 on, hours or days alike, or cron(…) with six fields, of which the day of the month or that of the week is ?."
  }
}

variable "sweep_schedule" {
  description = "When it looks for objects that no version ever named, which lists the whole root. Null never; without `schedule` neither."
  type        = string
  default     = "rate(1 day)"

  validation {
    condition     = var.sweep_schedule == null || can(regex("^(rate\\(1 (minute|hour|day)\\)|rate\\(([2-9]|[1-9][0-9]+) (minutes|hours|days)\\)|cron\\(\\S+ \\S+ (\\? \\S+ \\S+|\\S+ \\S+ \\?) \\S+\\))$", var.sweep_schedule))
    error_message = "A schedule is rate(1 minute), rate(N minutes) with N from 2 on, hours or days alike, or cron(…) with six fields, of which the day of the month or that of the week is ?."
  }
}

variable "continues" {
  description = "Whether a run that leaves work over starts the next one itself, and does not wait for the schedule."
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
