variable "function" {
  description = "The settings of the function, `store` and `package` at least: see [function](../function/README.md#settings). By default the name is `tidelake-ingest-http`, with 512 MB of `memory` and a `timeout` of 30 seconds. A write takes less than a second; a lost race for a new table may take some."
  type        = any
  nullable    = false
}

variable "url" {
  description = "Who may ask the function's URL, by default who signs requests: see [function](../function/README.md#url)."
  type        = any
  default     = {}
  nullable    = false
}

variable "auto_create_database" {
  description = "Whether a write to an unknown database creates it."
  type        = bool
  default     = true
  nullable    = false
}

variable "max_body" {
  description = "The largest request body after decompression, such as `16MiB`. A function's URL takes 6 MB before it. At most a quarter of the memory, which counts as 16 MiB at least and 256 MiB at most. By default 32 MiB, or that quarter."
  type        = string
  default     = null

  validation {
    condition     = var.max_body == null || can(regex("^[1-9][0-9]*(B|KiB|MiB|GiB)$", var.max_body))
    error_message = "A size is a whole number with B, KiB, MiB or GiB."
  }

  # As the function itself refuses it at its start. What is no size is refused above.
  validation {
    condition = try(
      tonumber(regex("^[0-9]+", var.max_body)) * { B = 1, KiB = pow(2, 10), MiB = pow(2, 20), GiB = pow(2, 30) }[regex("[A-Za-z]+$", var.max_body)],
      0,
    ) <= min(max(16, local.function.memory / 4), 256) * pow(2, 20)
    error_message = "A body has at most a quarter of the function's memory, which counts as 16 MiB at least and 256 MiB at most: raise memory or lower max_body."
  }
}
