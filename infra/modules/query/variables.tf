variable "function" {
  description = "The settings of the function, `store` and `package` at least: see [function](../function/README.md#settings). By default the name is `tidelake-query-http`, with 1024 MB of `memory` and a `timeout` of 60 seconds. A query is ended 5 seconds before `timeout`, with less than 20 about a quarter before, and answers that it took too long."
  type        = any
  nullable    = false
}

variable "url" {
  description = "Who may ask the function's URL, by default who signs requests: see [function](../function/README.md#url)."
  type        = any
  default     = {}
  nullable    = false
}

variable "response" {
  description = "How results are answered: `stream`, as they come; `buffered`, at once and at most 6 MB, which works everywhere. What is larger goes into the bucket, and the answer is a link."
  type        = string
  default     = "stream"
  nullable    = false

  validation {
    condition     = contains(["stream", "buffered"], var.response)
    error_message = "response is stream or buffered."
  }
}
