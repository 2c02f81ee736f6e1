variable "name" {
  description = "Name of the function."
  type        = string
  default     = "tidelake-query-http"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{1,64}$", var.name))
    error_message = "A function's name has at most 64 letters, digits, hyphens and underscores."
  }
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

  validation {
    condition     = can(regex("^s3://[^/]+/.+$", var.store.url)) && can(regex("^arn:[a-z-]+:s3:::[^/*]+$", var.store.bucket_arn)) && endswith(var.store.url, "/${var.store.prefix}")
    error_message = "A store is the output store of the storage module: url is s3://BUCKET/PREFIX, bucket_arn is arn:aws:s3:::BUCKET."
  }
}

variable "package" {
  description = "The zip with `bootstrap`: a path, or `s3://BUCKET/KEY`."
  type        = string
  nullable    = false

  validation {
    condition     = endswith(var.package, ".zip") && (!startswith(var.package, "s3://") || can(regex("^s3://[^/]+/.+$", var.package)))
    error_message = "A package is a path that ends in .zip, or s3://BUCKET/KEY.zip."
  }
}

variable "architecture" {
  description = "What the zip was built for: x86_64 or arm64."
  type        = string
  default     = "x86_64"
  nullable    = false

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "The architecture is x86_64 or arm64."
  }
}

variable "memory" {
  description = "Memory in MB, 128 to 10240. Processor time comes with it: 1769 MB are one core."
  type        = number
  default     = 1024
  nullable    = false

  validation {
    condition     = var.memory >= 128 && var.memory <= 10240 && floor(var.memory) == var.memory
    error_message = "A function has 128 to 10240 MB of memory."
  }
}

variable "timeout" {
  description = "Seconds after which an invocation is ended; a function's URL waits for 900 at most. A query is ended 5 seconds before, with less than 20 about a quarter before, and answers that it took too long."
  type        = number
  default     = 60
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

  validation {
    condition     = var.reserved_concurrency >= -1 && floor(var.reserved_concurrency) == var.reserved_concurrency
    error_message = "Reserved concurrency is -1, 0 or more."
  }
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
  description = "ARN of a secret of Secrets Manager with the tokens that the function accepts and what each may do: `{\"tokens\": [{\"token\": \"…\", \"name\": \"…\", \"read\": [\"DATABASE\"], \"write\": [\"DATABASE\"]}]}`. With one, each request needs a token, also beside a signature."
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

  validation {
    condition     = var.token_secret_kms_key_arn == null || can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/", var.token_secret_kms_key_arn))
    error_message = "A KMS key is named by its ARN, arn:aws:kms:REGION:ACCOUNT:key/ID."
  }
}

variable "ephemeral_storage" {
  description = "Size of /tmp in MB, where queries spill what does not fit into memory; beyond 512 it is billed while the function runs."
  type        = number
  default     = 512
  nullable    = false

  validation {
    condition     = var.ephemeral_storage >= 512 && var.ephemeral_storage <= 10240 && floor(var.ephemeral_storage) == var.ephemeral_storage
    error_message = "/tmp has 512 to 10240 MB."
  }
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

  validation {
    condition     = alltrue([for part in split(",", lower(var.log_level)) : can(regex("^(([a-z0-9_:-]+|[a-z0-9_:-]*\\[[^\\],]*\\])=)?(off|error|warn|info|debug|trace)$", part))])
    error_message = "A level is error, warn, info, debug, trace or off; several for parts of the program are written like info,tidelake_ingest=debug."
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
  description = "Subnets and security groups that the function runs in; none by default."
  type        = object({ subnet_ids = list(string), security_group_ids = list(string) })
  default     = null

  validation {
    condition     = var.vpc == null || try(length(var.vpc.subnet_ids) > 0 && length(var.vpc.security_group_ids) > 0 && alltrue([for id in var.vpc.subnet_ids : startswith(id, "subnet-")]) && alltrue([for id in var.vpc.security_group_ids : startswith(id, "sg-")]), false)
    error_message = "A function in a VPC has at least one subnet, subnet-…, and one security group, sg-…."
  }
}

variable "tags" {
  description = "Tags of every resource."
  type        = map(string)
  default     = {}
  nullable    = false
}
