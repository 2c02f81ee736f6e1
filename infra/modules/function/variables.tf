# Settings of a function are declared here with defaults and validation. A type cannot be imported from another module,
# so the modules that create a function accept any object and pass it here for validation.
variable "settings" {
  description = "Settings of the function. The modules that create a function have them as their variable `function`, with their own defaults of `name`, `memory` and `timeout`."
  type = object({
    # Location of the root: the output `store` of the storage module.
    store = any
    # The zip with `bootstrap`: a path, or `s3://BUCKET/KEY` for zips above 50 MB. A new zip in S3 needs a new key, or Terraform does not detect it.
    package = string
    # Name of the function, its role and its log group. The modules that create a function have a default.
    name = string
    # Architecture of the zip: x86_64 or arm64.
    architecture = optional(string, "x86_64")
    # Memory in MB, 128 to 10240. CPU is proportional to it: 1769 MB are one core.
    memory = optional(number, 512)
    # Timeout of an invocation in seconds, 3 to 900.
    timeout = optional(number, 30)
    # Size of /tmp in MB, used for spill files of queries; beyond 512 it is billed while the function runs.
    ephemeral_storage = optional(number, 512)
    # Reserved concurrency, not available to the account's other functions; -1 reserves none, 0 stops the function.
    reserved_concurrency = optional(number, -1)
    # Additional settings, as environment variables of the function; null values are omitted.
    environment = optional(map(string), {})
    # Log filter, such as `info` or `tidelake_ingest=debug`.
    log_level = optional(string, "info")
    # Retention of logs in days.
    log_retention_days = optional(number, 30)
    # Whether invocations are traced by X-Ray.
    tracing = optional(bool, false)
    # Subnets and security groups of the function, which then reaches S3 only through an endpoint or a NAT gateway. No VPC by default.
    vpc = optional(object({ subnet_ids = list(string), security_group_ids = list(string) }))
    # Tags of every resource.
    tags = optional(map(string), {})
  })
  nullable = false

  validation {
    condition     = try(endswith(var.settings.package, ".zip") && (!startswith(var.settings.package, "s3://") || can(regex("^s3://[^/]+/.+$", var.settings.package))), false)
    error_message = "Invalid package: expected a path that ends in .zip, or s3://BUCKET/KEY.zip."
  }

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{1,64}$", var.settings.name))
    error_message = "Invalid name of a function: expected at most 64 letters, digits, hyphens and underscores."
  }

  validation {
    condition     = contains(["x86_64", "arm64"], var.settings.architecture)
    error_message = "Invalid architecture: expected x86_64 or arm64."
  }

  validation {
    condition     = var.settings.memory >= 128 && var.settings.memory <= 10240 && floor(var.settings.memory) == var.settings.memory
    error_message = "Invalid memory: expected 128 to 10240 MB."
  }

  validation {
    condition     = var.settings.timeout >= 3 && var.settings.timeout <= 900 && floor(var.settings.timeout) == var.settings.timeout
    error_message = "Invalid timeout: expected 3 to 900 seconds."
  }

  validation {
    condition     = var.settings.ephemeral_storage >= 512 && var.settings.ephemeral_storage <= 10240 && floor(var.settings.ephemeral_storage) == var.settings.ephemeral_storage
    error_message = "Invalid size of /tmp: expected 512 to 10240 MB."
  }

  validation {
    condition     = var.settings.reserved_concurrency >= -1 && floor(var.settings.reserved_concurrency) == var.settings.reserved_concurrency
    error_message = "Invalid reserved concurrency: expected -1, 0 or more."
  }

  validation {
    condition     = alltrue([for name in keys(var.settings.environment) : can(regex("^[A-Za-z][A-Za-z0-9_]+$", name))])
    error_message = "Invalid name of an environment variable: expected letters, digits and underscores, beginning with a letter."
  }

  validation {
    condition     = alltrue([for part in split(",", lower(var.settings.log_level)) : can(regex("^(([a-z0-9_:-]+|[a-z0-9_:-]*\\[[^\\],]*\\])=)?(off|error|warn|info|debug|trace)$", part))])
    error_message = "Invalid log filter: expected error, warn, info, debug, trace or off, or several levels like info,tidelake_ingest=debug."
  }

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.settings.log_retention_days)
    error_message = "Invalid retention: CloudWatch supports 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731 or 1096 days, or whole years from 5 to 10."
  }

  validation {
    condition     = var.settings.vpc == null || try(length(var.settings.vpc.subnet_ids) > 0 && length(var.settings.vpc.security_group_ids) > 0 && alltrue([for id in var.settings.vpc.subnet_ids : startswith(id, "subnet-")]) && alltrue([for id in var.settings.vpc.security_group_ids : startswith(id, "sg-")]), false)
    error_message = "A function in a VPC needs at least one subnet, subnet-…, and one security group, sg-…."
  }

  validation {
    condition     = length(var.settings.tags) <= 50 && alltrue([for key, value in var.settings.tags : length(key) >= 1 && length(key) <= 128 && length(value) <= 256 && !startswith(lower(key), "aws:")])
    error_message = "Invalid tags: expected at most 50, with keys of 1 to 128 characters that do not begin with aws:, values of at most 256."
  }

  # An object type drops unknown attributes, so a misspelt name would silently mean the default.
  validation {
    condition     = length(setsubtract(var.names.settings, keys(var.settings))) == 0
    error_message = "A function has no setting ${join(", ", setsubtract(var.names.settings, keys(var.settings)))}: there are ${join(", ", keys(var.settings))}."
  }
}

variable "names" {
  description = "Attribute names given in `settings` and `url`; unknown names are refused."
  type        = object({ settings = optional(list(string), []), url = optional(list(string), []) })
  default     = {}
  nullable    = false
}

variable "description" {
  description = "Description of the function, shown in the console."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = length(var.description) <= 256
    error_message = "A function's description has at most 256 characters."
  }
}

variable "rights" {
  description = "Rights of the function in the root: an output of the access module, `write`, `compact` or `query`."
  type        = string
  nullable    = false

  validation {
    condition     = contains(["write", "compact", "query"], var.rights)
    error_message = "Invalid rights: expected write, compact or query."
  }
}

variable "environment" {
  description = "Environment variables set by the calling module; null values are omitted, and those in `settings` take precedence."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "statements" {
  description = "Additional statements of the role's policy, besides those for root, tokens, logs, traces and network."
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
    error_message = "Invalid statement: expected complete names of actions, without * at the end."
  }

  validation {
    condition     = alltrue([for s in var.statements : !contains(s.Resource, "*")])
    error_message = "Invalid statement: expected specific resources."
  }
}

variable "url" {
  description = "The function's URL and its authentication; null for no URL. Modules whose function has a URL have this as their variable `url`, without `invoke_mode`."
  type = object({
    # Authentication: `AWS_IAM` admits callers that sign requests and have the right; `NONE` admits `users`, or tokens of `token_secret_arn`.
    auth = optional(string, "AWS_IAM")
    # Whether requests must authenticate as users of the root or with their tokens, with the rights granted to them. Excludes `token_secret_arn`.
    users = optional(bool, false)
    # ARN of a Secrets Manager secret with the tokens that the function accepts and their rights: `{"tokens": [{"token": "…", "name": "…", "read": ["DATABASE"], "write": ["DATABASE"]}]}`. If set, each request needs a token, even if it is signed.
    token_secret_arn = optional(string)
    # ARN of the KMS key of that secret, if it is not the account's default.
    token_secret_kms_key_arn = optional(string)
    # `BUFFERED` or `RESPONSE_STREAM`.
    invoke_mode = optional(string, "BUFFERED")
  })
  default = null

  validation {
    condition     = var.url == null || try(contains(["AWS_IAM", "NONE"], var.url.auth), false)
    error_message = "Invalid auth: expected AWS_IAM or NONE."
  }

  validation {
    condition     = var.url == null || try(var.url.auth != "NONE" || var.url.token_secret_arn != null || var.url.users, false)
    error_message = "A URL with auth NONE needs users, or token_secret_arn, a secret with the tokens that the function accepts."
  }

  validation {
    condition     = var.url == null || try(!var.url.users || var.url.token_secret_arn == null, false)
    error_message = "Set only one of users and token_secret_arn."
  }

  validation {
    condition     = var.url == null || try(var.url.token_secret_arn == null || can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:", var.url.token_secret_arn)), false)
    error_message = "Invalid secret: expected an ARN, arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME."
  }

  validation {
    condition     = var.url == null || try(var.url.token_secret_kms_key_arn == null || can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/", var.url.token_secret_kms_key_arn)), false)
    error_message = "Invalid KMS key: expected an ARN, arn:aws:kms:REGION:ACCOUNT:key/ID."
  }

  validation {
    condition     = var.url == null || contains(["BUFFERED", "RESPONSE_STREAM"], try(var.url.invoke_mode, ""))
    error_message = "Invalid invoke_mode: expected BUFFERED or RESPONSE_STREAM."
  }

  validation {
    condition     = length(setsubtract(var.names.url, try(keys(var.url), []))) == 0
    error_message = "A URL has no setting ${join(", ", setsubtract(var.names.url, try(keys(var.url), [])))}: there are auth, users, token_secret_arn and token_secret_kms_key_arn."
  }
}
