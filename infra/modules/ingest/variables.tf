variable "function" {
  description = "The settings of the function, `store` and `package` at least: see [function](../function/README.md#settings). By default the name is `tidelake-ingest-http`, with 512 MB of `memory` and a `timeout` of 30 seconds. A write takes less than a second; a lost race for a new table may take some."
  type        = any
  nullable    = false
}

variable "url" {
  description = "Authentication of the function's URL; by default callers must sign requests: see [function](../function/README.md#url)."
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
  description = "Maximum request body after decompression, such as `16MiB`; a function URL accepts 6 MB before it. Limit: a quarter of the memory, but at least 16 MiB and at most 256 MiB. Default: 32 MiB, or that limit if smaller."
  type        = string
  default     = null

  validation {
    condition     = var.max_body == null || can(regex("^[1-9][0-9]*(B|KiB|MiB|GiB)$", var.max_body))
    error_message = "Invalid size: expected a whole number with B, KiB, MiB or GiB."
  }

  # The function refuses the same at its start. Invalid sizes are refused above.
  validation {
    condition = try(
      tonumber(regex("^[0-9]+", var.max_body)) * { B = 1, KiB = pow(2, 10), MiB = pow(2, 20), GiB = pow(2, 30) }[regex("[A-Za-z]+$", var.max_body)],
      0,
    ) <= min(max(16, local.function.memory / 4), 256) * pow(2, 20)
    error_message = "max_body exceeds a quarter of the function's memory (at least 16 MiB, at most 256 MiB): raise memory or lower max_body."
  }
}
