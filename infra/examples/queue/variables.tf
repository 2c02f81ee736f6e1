variable "region" {
  description = "AWS region."
  type        = string
  default     = "us-east-1"

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "Invalid region: expected a name like us-east-1."
  }
}

variable "name" {
  description = "Prefix of the names of all resources."
  type        = string
  default     = "tidelake"
}

variable "packages" {
  description = "Location of the zips: a directory, by default that of `cargo xtask package`, or s3://BUCKET/PREFIX."
  type        = string
  default     = "../../../target/package"
}

variable "architecture" {
  description = "Architecture of the zips: x86_64 or arm64."
  type        = string
  default     = "x86_64"
}

variable "token_secret_arn" {
  description = "ARN of a secret with the clients' tokens; null admits callers that sign requests."
  type        = string
  default     = null
}

variable "email" {
  description = "E-mail address for alarms and the budget; null for none."
  type        = string
  default     = null
}

variable "monthly_budget" {
  description = "Expected monthly cost in dollars."
  type        = number
  default     = 20
}
