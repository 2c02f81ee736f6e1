variable "name" {
  description = "Name of the function."
  type        = string
  default     = "tidelake-compact"
  nullable    = false
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
}

variable "package" {
  description = "The zip with `bootstrap`: a path, or `s3://BUCKET/KEY`."
  type        = string
  nullable    = false
}

variable "architecture" {
  description = "What the zip was built for: x86_64 or arm64."
  type        = string
  default     = "x86_64"
  nullable    = false
}

variable "memory" {
  description = "Memory in MB, 128 to 10240. Processor time comes with it: 1769 MB are one core."
  type        = number
  default     = 1024
  nullable    = false
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
}

variable "schedule" {
  description = "When it runs: `rate(…)` or `cron(…)` of EventBridge; null never, only on demand. Rows are seen at once in any case; each run reads the log, and what is not folded makes queries slower."
  type        = string
  default     = "rate(1 minute)"

  validation {
    condition     = var.schedule == null || can(regex("^(rate\\(1 (minute|hour|day)\\)|rate\\([0-9]+ (minutes|hours|days)\\)|cron\\(.+\\))$", var.schedule))
    error_message = "A schedule is rate(1 minute), rate(N minutes), hours or days alike, or cron(…)."
  }
}

variable "collect_schedule" {
  description = "When it deletes what no version needs any more; on an idle root that ends at once. Null never; without `schedule` neither."
  type        = string
  default     = "rate(1 hour)"
}

variable "sweep_schedule" {
  description = "When it looks for objects that no version ever named, which lists the whole root. Null never; without `schedule` neither."
  type        = string
  default     = "rate(1 day)"
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
}

variable "log_retention_days" {
  description = "Days that logs are kept."
  type        = number
  default     = 30
  nullable    = false
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
}

variable "tags" {
  description = "Tags of every resource."
  type        = map(string)
  default     = {}
  nullable    = false
}
