variable "function" {
  description = "The settings of the function, `store` and `package` at least: see [function](../function/README.md#settings). By default the name is `tidelake-compact`, with 1024 MB of `memory` and a `timeout` of 300 seconds. A run stops by itself some time before `timeout` and leaves the rest to the next."
  type        = any
  nullable    = false

  validation {
    condition     = try(var.function.timeout >= 30, true)
    error_message = "A run of compaction may take 30 to 900 seconds."
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
