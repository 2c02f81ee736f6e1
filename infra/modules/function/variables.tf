variable "name" {
  description = "Name of the function, its role and its log group."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{1,64}$", var.name))
    error_message = "A function's name has at most 64 letters, digits, hyphens and underscores."
  }
}

variable "description" {
  description = "What the function is for, as the console shows it."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = length(var.description) <= 256
    error_message = "A function's description has at most 256 characters."
  }
}

variable "package" {
  description = "The zip with `bootstrap`: a path, or `s3://BUCKET/KEY` for zips above 50 MB. A new zip in S3 needs a new key, or Terraform does not see it."
  type        = string
  nullable    = false

  validation {
    condition     = endswith(var.package, ".zip") && (!startswith(var.package, "s3://") || can(regex("^s3://[^/]+/.+$", var.package)))
    error_message = "A package is a path that ends in .zip, or s3://BUCKET/KEY.zip."
  }
}

variable "architecture" {
  description = "What the zip was built for."
  type        = string
  default     = "x86_64"
  nullable    = false

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "The architecture is x86_64 or arm64."
  }
}

variable "memory" {
  description = "Memory in MB. Processor time comes with it: 1769 MB are one core."
  type        = number
  default     = 512
  nullable    = false

  validation {
    condition     = var.memory >= 128 && var.memory <= 10240 && floor(var.memory) == var.memory
    error_message = "A function has 128 to 10240 MB of memory."
  }
}

variable "timeout" {
  description = "Seconds after which an invocation is ended."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = var.timeout >= 1 && var.timeout <= 900 && floor(var.timeout) == var.timeout
    error_message = "An invocation may take 1 to 900 seconds."
  }
}

variable "ephemeral_storage" {
  description = "Size of /tmp in MB; beyond 512 it is billed while the function runs."
  type        = number
  default     = 512
  nullable    = false

  validation {
    condition     = var.ephemeral_storage >= 512 && var.ephemeral_storage <= 10240 && floor(var.ephemeral_storage) == var.ephemeral_storage
    error_message = "/tmp has 512 to 10240 MB."
  }
}

variable "reserved_concurrency" {
  description = "Invocations at once, kept from the account's other functions; -1 takes what is free, 0 stops the function."
  type        = number
  default     = -1
  nullable    = false

  validation {
    condition     = var.reserved_concurrency >= -1 && floor(var.reserved_concurrency) == var.reserved_concurrency
    error_message = "Reserved concurrency is -1, 0 or more."
  }
}

variable "environment" {
  description = "Environment variables; those that are null are left out."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for name in keys(var.environment) : can(regex("^[A-Za-z][A-Za-z0-9_]+$", name))])
    error_message = "The name of an environment variable has letters, digits and underscores, and begins with a letter."
  }
}

variable "statements" {
  description = "Statements of the role's policy, besides those for logs, traces and the network."
  type = list(object({
    Sid       = string
    Effect    = optional(string, "Allow")
    Action    = list(string)
    Resource  = list(string)
    Condition = optional(map(map(list(string))))
  }))
  default  = []
  nullable = false

  validation {
    condition     = alltrue([for s in var.statements : alltrue([for a in s.Action : !endswith(a, "*")])])
    error_message = "A statement names each action."
  }

  validation {
    condition     = alltrue([for s in var.statements : !contains(s.Resource, "*")])
    error_message = "A statement names what it is about."
  }
}

variable "url" {
  description = <<-EOT
    The function's URL: `auth` is `AWS_IAM` (requests are signed) or `NONE` (anybody may ask; the function looks at tokens),
    `invoke_mode` is `BUFFERED` or `RESPONSE_STREAM`. No URL by default.
  EOT
  type = object({
    auth        = optional(string, "AWS_IAM")
    invoke_mode = optional(string, "BUFFERED")
  })
  default = null

  validation {
    condition     = var.url == null || contains(["AWS_IAM", "NONE"], try(var.url.auth, ""))
    error_message = "auth is AWS_IAM or NONE."
  }

  validation {
    condition     = var.url == null || contains(["BUFFERED", "RESPONSE_STREAM"], try(var.url.invoke_mode, ""))
    error_message = "invoke_mode is BUFFERED or RESPONSE_STREAM."
  }
}

variable "log_retention_days" {
  description = "Days that logs are kept."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "CloudWatch keeps logs for 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731 or 1096 days, or whole years from 5 to 10."
  }
}

variable "tracing" {
  description = "Whether invocations are traced by X-Ray."
  type        = bool
  default     = false
  nullable    = false
}

variable "vpc" {
  description = "Subnets and security groups that the function runs in. It then reaches S3 only through an endpoint or a NAT gateway. No VPC by default."
  type        = object({ subnet_ids = list(string), security_group_ids = list(string) })
  default     = null

  validation {
    condition     = var.vpc == null || (length(try(var.vpc.subnet_ids, [])) > 0 && length(try(var.vpc.security_group_ids, [])) > 0)
    error_message = "A function in a VPC has at least one subnet and one security group."
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
