variable "name" {
  description = "Prefix of the names of alarms, topic, dashboard and budget."
  type        = string
  default     = "tidelake"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{1,64}$", var.name))
    error_message = "Invalid name: expected at most 64 letters, digits, hyphens and underscores, as for a dashboard and a topic."
  }
}

variable "functions" {
  description = "Functions to watch, by short name: each is the output `function` of its module."
  type        = map(object({ name = string, timeout = number, log_group = string }))
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for function in var.functions : can(regex("^[A-Za-z0-9_-]{1,64}$", function.name)) && function.timeout >= 1 && function.timeout <= 900 && can(regex("^[A-Za-z0-9_/.#-]{1,512}$", function.log_group))])
    error_message = "Invalid function: expected the output function of its module, with name, timeout of 1 to 900 seconds, and log group."
  }
}

variable "compaction" {
  description = "Short name of the compaction function, which measures log and files; null if a server compacts."
  type        = string
  default     = null

  validation {
    condition     = var.compaction == null || contains(keys(var.functions), coalesce(var.compaction, "-"))
    error_message = "Invalid compaction: expected the short name of one of functions."
  }
}

variable "compaction_seconds" {
  description = "Seconds from one scheduled run of compaction to the next, the output `interval_seconds` of its module; the longest if they differ. Null if it runs only on demand: then, as with more than two days, no alarm reports a log that is not folded."
  type        = number
  default     = 60

  validation {
    condition     = var.compaction_seconds == null || try(var.compaction_seconds >= 60 && var.compaction_seconds % 60 == 0, false)
    error_message = "Invalid compaction_seconds: expected a multiple of 60, at least 60."
  }
}

variable "stream_reader" {
  description = "Short name of the function that reads a Kinesis stream; null for none."
  type        = string
  default     = null

  validation {
    condition     = var.stream_reader == null || contains(keys(var.functions), coalesce(var.stream_reader, "-"))
    error_message = "Invalid stream_reader: expected the short name of one of functions."
  }
}

variable "queue_name" {
  description = "Name of the queue for rows; null for none."
  type        = string
  default     = null

  validation {
    condition     = var.queue_name == null || can(regex("^[A-Za-z0-9_-]{1,75}(\\.fifo)?$", var.queue_name))
    error_message = "Invalid name of a queue: expected letters, digits, hyphens and underscores, optionally ending in .fifo."
  }
}

variable "dead_letters" {
  description = "Names of the dead-letter queues to watch, by short name."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for name in values(var.dead_letters) : can(regex("^[A-Za-z0-9_-]{1,75}(\\.fifo)?$", name))])
    error_message = "Invalid name of a queue: expected letters, digits, hyphens and underscores, optionally ending in .fifo."
  }
}

variable "alarms" {
  description = "Whether to create alarms and their topic. CloudWatch bills alarms beyond the first ten of an account."
  type        = bool
  default     = true
  nullable    = false
}

variable "email" {
  description = "E-mail address for alarms and the budget; its owner must confirm the subscription. Null for none."
  type        = string
  default     = null

  validation {
    condition     = var.email == null || can(regex("^[^@\\s]+@[^@\\s]+$", var.email))
    error_message = "Invalid e-mail address: expected one like name@example.com."
  }
}

variable "lag_seconds" {
  description = "Age in seconds of the oldest unfolded segment at which the alarm is raised."
  type        = number
  default     = 900
  nullable    = false

  validation {
    condition     = var.lag_seconds >= 60
    error_message = "Invalid age: expected at least 60 seconds."
  }
}

variable "near_timeout" {
  description = "Share of a function's timeout at which the alarm is raised. Compaction starts no work after half of its time, and running work usually ends before this share."
  type        = number
  default     = 0.9
  nullable    = false

  validation {
    condition     = var.near_timeout > 0 && var.near_timeout <= 1
    error_message = "Invalid share: expected above 0 and at most 1."
  }
}

variable "stream_age_seconds" {
  description = "Age in seconds of a stream's records at which the alarm is raised."
  type        = number
  default     = 900
  nullable    = false

  validation {
    condition     = var.stream_age_seconds >= 60
    error_message = "Invalid age: expected at least 60 seconds."
  }
}

variable "dashboard" {
  description = "Whether to create a dashboard. CloudWatch bills dashboards beyond the first three of an account."
  type        = bool
  default     = true
  nullable    = false
}

variable "monthly_budget" {
  description = "Monthly budget in dollars: mail is sent at 80 % of it and when the forecast exceeds it; null for no budget. Without `budget_tag` it covers the whole account."
  type        = number
  default     = null

  validation {
    condition     = var.monthly_budget == null || try(var.monthly_budget > 0, false)
    error_message = "Invalid budget: expected above 0."
  }

  validation {
    condition     = var.monthly_budget == null || var.email != null
    error_message = "A budget needs email for its notifications."
  }
}

variable "budget_tag" {
  description = "Tag of the resources that the budget covers, `{ key, value }`; it must be activated as a cost allocation tag."
  type        = object({ key = string, value = string })
  default     = null

  validation {
    condition     = var.budget_tag == null || try(length(var.budget_tag.key) > 0 && !strcontains(var.budget_tag.key, "$"), false)
    error_message = "A budget's tag has a key, without a dollar sign."
  }
}

variable "tags" {
  description = "Tags of every resource."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = length(var.tags) <= 50 && alltrue([for key, value in var.tags : length(key) >= 1 && length(key) <= 128 && length(value) <= 256 && !startswith(lower(key), "aws:")])
    error_message = "Invalid tags: expected at most 50, with keys of 1 to 128 characters that do not begin with aws:, values of at most 256."
  }
}
