variable "name" {
  description = "Begins the names of alarms, topic, dashboard and budget."
  type        = string
  default     = "tidelake"
  nullable    = false
}

variable "functions" {
  description = "The functions to watch, by a short name: each the output `function` of its module."
  type        = map(object({ name = string, timeout = number, log_group = string }))
  default     = {}
  nullable    = false
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
}

variable "dead_letters" {
  description = "Names of the queues of dead letters to watch, by a short name."
  type        = map(string)
  default     = {}
  nullable    = false
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
  description = "Share of a function's timeout that an invocation may take. Compaction stops by itself at four fifths."
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
}

variable "tags" {
  description = "Tags of every resource."
  type        = map(string)
  default     = {}
  nullable    = false
}
