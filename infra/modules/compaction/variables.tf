variable "function" {
  description = "The settings of the function, `store` and `package` at least: see [function](../function/README.md#settings). By default the name is `tidelake-compact`, with 1024 MB of `memory` and a `timeout` of 300 seconds. A run stops by itself some time before `timeout` and leaves the rest to the next."
  type        = any
  nullable    = false

  validation {
    condition     = try(var.function.timeout >= 30, true)
    error_message = "Invalid timeout: expected 30 to 900 seconds for compaction."
  }
}

variable "schedule" {
  description = "Schedule of compaction: `rate(…)` or `cron(…)` of EventBridge; null runs it only on demand. Rows are visible at once in any case; each run reads the log, and a log that is not folded makes queries slower."
  type        = string
  default     = "rate(1 minute)"

  validation {
    condition     = var.schedule == null || can(regex("^(rate\\(1 (minute|hour|day)\\)|rate\\(([2-9]|[1-9][0-9]+) (minutes|hours|days)\\)|cron\\(\\S+ \\S+ (\\? \\S+ \\S+|\\S+ \\S+ \\?) \\S+\\))$", var.schedule))
    error_message = "Invalid schedule: expected rate(1 minute), rate(N minutes) with N from 2 on, hours or days alike, or cron(…) with six fields, of which the day of the month or that of the week is ?."
  }
}

variable "collect_schedule" {
  description = "Schedule of garbage collection, which deletes objects that no version needs any more; on an idle root it ends at once. Null, or no `schedule`: never."
  type        = string
  default     = "rate(1 hour)"

  validation {
    condition     = var.collect_schedule == null || can(regex("^(rate\\(1 (minute|hour|day)\\)|rate\\(([2-9]|[1-9][0-9]+) (minutes|hours|days)\\)|cron\\(\\S+ \\S+ (\\? \\S+ \\S+|\\S+ \\S+ \\?) \\S+\\))$", var.collect_schedule))
    error_message = "Invalid schedule: expected rate(1 minute), rate(N minutes) with N from 2 on, hours or days alike, or cron(…) with six fields, of which the day of the month or that of the week is ?."
  }
}

variable "sweep_schedule" {
  description = "Schedule of the search for objects that no version ever referenced, which lists the whole root. Null, or no `schedule`: never."
  type        = string
  default     = "rate(1 day)"

  validation {
    condition     = var.sweep_schedule == null || can(regex("^(rate\\(1 (minute|hour|day)\\)|rate\\(([2-9]|[1-9][0-9]+) (minutes|hours|days)\\)|cron\\(\\S+ \\S+ (\\? \\S+ \\S+|\\S+ \\S+ \\?) \\S+\\))$", var.sweep_schedule))
    error_message = "Invalid schedule: expected rate(1 minute), rate(N minutes) with N from 2 on, hours or days alike, or cron(…) with six fields, of which the day of the month or that of the week is ?."
  }
}

variable "continues" {
  description = "Whether a run that leaves work undone starts the next run immediately."
  type        = bool
  default     = true
  nullable    = false
}
