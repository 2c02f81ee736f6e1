variable "name" {
  description = "Name of the function."
  type        = string
  default     = "tidelake-ingest-http"
  nullable    = false
}

variable "store" {
  description = "Where the root lies: the output `store` of the storage module."
  type = object({
    url         = string
    bucket_arn  = string
    prefix      = string
    kms_key_arn = optional(string)
  })
  nullable = false
}

variable "package" {
  description = "The zip with `bootstrap`: a path, or `s3://BUCKET/KEY`."
  type        = string
  nullable    = false
}

variable "architecture" {
  description = "What the zip was built for: x86_64 or arm64."
  type        = string
  default     = "x86_64"
  nullable    = false
}

variable "memory" {
  description = "Memory in MB, 128 to 10240. Processor time comes with it: 1769 MB are one core."
  type        = number
  default     = 512
  nullable    = false
}

variable "timeout" {
  description = "Seconds after which an invocation is ended. A write takes less than one; a lost race for a new table may take some."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = var.timeout >= 3 && var.timeout <= 900 && floor(var.timeout) == var.timeout
    error_message = "An invocation may take 3 to 900 seconds."
  }
}

variable "reserved_concurrency" {
  description = "Invocations at once, kept from the account's other functions; -1 takes what is free, 0 stops the function."
  type        = number
  default     = -1
  nullable    = false
}

variable "auth" {
  description = "Who may ask: `AWS_IAM`, who signs requests and has the right; `NONE`, who is one of the `users`, or brings a token of `token_secret_arn`."
  type        = string
  default     = "AWS_IAM"
  nullable    = false

  validation {
    condition     = contains(["AWS_IAM", "NONE"], var.auth)
    error_message = "auth is AWS_IAM or NONE."
  }

  validation {
    condition     = var.auth != "NONE" || var.token_secret_arn != null || var.users
    error_message = "A URL that anybody may ask needs users, or token_secret_arn, a secret with the tokens that the function accepts."
  }
}

variable "users" {
  description = "Whether requests have to be of users of the root, or of their programs, who may do what was granted to them. Not beside `token_secret_arn`."
  type        = bool
  default     = false
  nullable    = false

  validation {
    condition     = !var.users || var.token_secret_arn == null
    error_message = "Either users of the root come in, or who brings one of the tokens of token_secret_arn."
  }
}

variable "token_secret_arn" {
  description = "ARN of a secret of Secrets Manager with the tokens that the function accepts, `{\"tokens\": [\"…\"]}`. With one, each request needs a token, also beside a signature."
  type        = string
  default     = null

  validation {
    condition     = var.token_secret_arn == null || can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:", var.token_secret_arn))
    error_message = "A secret is named by its ARN, arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME."
  }
}

variable "token_secret_kms_key_arn" {
  description = "ARN of the KMS key of that secret, if it is not the account's default."
  type        = string
  default     = null
}

variable "auto_create_database" {
  description = "Whether a write to an unknown database creates it."
  type        = bool
  default     = true
  nullable    = false
}

variable "max_body" {
  description = "The largest request body after decompression, such as `16MiB`. A function's URL takes 6 MB before it. By default the function's own limit."
  type        = string
  default     = null

  validation {
    condition     = var.max_body == null || can(regex("^[1-9][0-9]*(B|KiB|MiB|GiB)$", var.max_body))
    error_message = "A size is a whole number with B, KiB, MiB or GiB."
  }
}

variable "environment" {
  description = "More settings, as environment variables of the function."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "log_level" {
  description = "What is logged, such as `info` or `tidelake_ingest=debug`."
  type        = string
  default     = "info"
  nullable    = false
}

variable "log_retention_days" {
  description = "Days that logs are kept."
  type        = number
  default     = 30
  nullable    = false
}

variable "tracing" {
  description = "Whether invocations are traced by X-Ray."
  type        = bool
  default     = false
  nullable    = false
}

variable "vpc" {
  description = "Subnets and security groups that the function runs in; none by default."
  type        = object({ subnet_ids = list(string), security_group_ids = list(string) })
  default     = null
}

variable "tags" {
  description = "Tags of every resource."
  type        = map(string)
  default     = {}
  nullable    = false
}
