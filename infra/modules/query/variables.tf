variable "function" {
  description = "The settings of the function, `store` and `package` at least: see [function](../function/README.md#settings). By default the name is `tidelake-query-http`, with 1024 MB of `memory` and a `timeout` of 60 seconds. A query fails with a timeout error 5 seconds before `timeout`; if `timeout` is below 20, about a quarter before."
  type        = any
  nullable    = false
}

variable "url" {
  description = "Authentication of the function's URL; by default callers must sign requests: see [function](../function/README.md#url)."
  type        = any
  default     = {}
  nullable    = false
}

variable "response" {
  description = "How results are sent: `stream`, incrementally; `buffered`, at once and at most 6 MB, which works everywhere. A larger result is stored in the bucket, and the response redirects to it."
  type        = string
  default     = "stream"
  nullable    = false

  validation {
    condition     = contains(["stream", "buffered"], var.response)
    error_message = "Invalid response: expected stream or buffered."
  }
}
