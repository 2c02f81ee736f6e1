variable "name" {
  description = "Begins the names of alarms, topic, dashboard and budget."
  type        = string
  default     = "tidelake"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{1,64}$", var.name))
    error_message = "The name has at most 64 letters, digits, hyphens and underscores, as that of a dashboard and of a topic."
  }
}

variable "functions" {
  description = "The functions to watch, by a short name: each the output `function` of its module."
  type        = map(object({ name = string, timeout = number, log_group = string }))
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for function in var.functions : can(regex("^[A-Za-z0-9_-]{1,64}$", function.name)) && function.timeout >= 1 && function.timeout <= 900 && can(regex("^[A-Za-z0-9_/.#-]{1,512}$", function.log_group))])
    error_message = "A function is the output function of its module: its name, its timeout of 1 to 900 seconds, its log group."
  }
}

variable "compaction" {
  description = "Short name of the function that compacts, which measures the log and the files; null where a server does."
  type        = string
  default     = null

  validation {
    condition     = var.compaction == null || contains(keys(var.functions), coalesce(var.compaction, "-"))
    error_message = "compaction is one of functions."
  }
}

variable "compaction_seconds" {
  description = "Seconds from one scheduled run of compaction to the next, the output `interval_seconds` of its module; the longest such time where they differ. Null where it runs on demand only: then nothing rings because the log is not folded, nor with more than two days."
  type        = number
  default     = 60

  validation {
    condition     = var.compaction_seconds == null || try(var.compaction_seconds >= 60 && var.compaction_seconds % 60 == 0, false)
    error_message = "A schedule runs every minute or more rarely: whole minutes, in seconds."
  }
}

variable "stream_reader" {
  description = "Short name of the function that reads a Kinesis stream; null for none."
  type        = string
  default     = null

  validation {
    condition     = var.stream_reader == null || contains(keys(var.functions), coalesce(var.stream_reader, "-"))
    error_message = "stream_reader is one of functions."
  }
}

variable "queue_name" {
  description = "Name of the queue that rows come from; null for none."
  type        = string
  default     = null

  validation {
    condition     = var.queue_name == null || can(regex("^[A-Za-z0-9_-]{1,75}(\\.fifo)?$", var.queue_name))
    error_message = "A queue's name has letters, digits, hyphens and underscores, and may end in .fifo."
  }
}

variable "dead_letters" {
  description = "Names of the queues of dead letters to watch, by a short name."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for name in values(var.dead_letters) : can(regex("^[A-Za-z0-9_-]{1,75}(\\.fifo)?$", name))])
    error_message = "A queue's name has letters, digits, hyphens and underscores, and may end in .fifo."
  }
}

variable "alarms" {
  description = "Whether to make alarms and the topic that they tell. CloudWatch bills alarms beyond the first ten of an account."
  type        = bool
  default     = true
  nullable    = false
}

variable "email" {
  description = "Address that alarms and the budget are sent to; it has to be confirmed by the one who reads it. Null for none."
  type        = string
  default     = null

  validation {
    condition     = var.email == null || can(regex("^[^@\\s]+@[^@\\s]+$", var.email))
    error_message = "An address is written like name@example.com."
  }
}

variable "lag_seconds" {
  description = "Age of the oldest segment that is not folded from which on the log is behind."
  type        = number
  default     = 900
  nullable    = false

  validation {
    condition     = var.lag_seconds >= 60
    error_message = "A log is not behind before a minute."
  }
}

variable "near_timeout" {
  description = "Share of a function's timeout that an invocation may take. Compaction begins nothing after half of its time, and what it has begun by then usually ends before this."
  type        = number
  default     = 0.9
  nullable    = false

  validation {
    condition     = var.near_timeout > 0 && var.near_timeout <= 1
    error_message = "A share is above 0 and at most 1."
  }
}

variable "stream_age_seconds" {
  description = "Age of a stream's records from which on their reader is behind."
  type        = number
  default     = 900
  nullable    = false

  validation {
    condition     = var.stream_age_seconds >= 60
    error_message = "A reader is not behind before a minute."
  }
}

variable "dashboard" {
  description = "Whether to make a dashboard. CloudWatch bills dashboards beyond the first three of an account."
  type        = bool
  default     = true
  nullable    = false
}

variable "monthly_budget" {
  description = "Dollars a month from four fifths of which on, and beyond which as forecast, mail is sent; null for no budget. Without `budget_tag` it is for the whole account."
  type        = number
  default     = null

  validation {
    condition     = var.monthly_budget == null || try(var.monthly_budget > 0, false)
    error_message = "A budget is above 0."
  }

  validation {
    condition     = var.monthly_budget == null || var.email != null
    error_message = "A budget needs email, where it is reported."
  }
}

variable "budget_tag" {
  description = "Tag of the resources that the budget is for, `{ key, value }`; billing has to know it as a cost allocation tag."
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
    error_message = "A resource has at most 50 tags: keys of 1 to 128 characters that do not begin with aws:, values of at most 256."
  }
}
