# What is set for a function is declared here, with its defaults and what is refused. A type cannot be taken from another module,
# so the modules that make a function take any object, and hand it on to be checked here.
variable "settings" {
  description = "What is set for the function. The modules that make one have it as their variable `function`, with defaults of their own for `name`, `memory` and `timeout`."
  type = object({
    # Where the root lies: the output `store` of the storage module.
    store = any
    # The zip with `bootstrap`: a path, or `s3://BUCKET/KEY` for zips above 50 MB. A new zip in S3 needs a new key, or Terraform does not see it.
    package = string
    # Name of the function, its role and its log group. The modules that make a function have one.
    name = string
    # What the zip was built for: x86_64 or arm64.
    architecture = optional(string, "x86_64")
    # Memory in MB, 128 to 10240. Processor time comes with it: 1769 MB are one core.
    memory = optional(number, 512)
    # Seconds after which an invocation is ended, 3 to 900.
    timeout = optional(number, 30)
    # Size of /tmp in MB, where queries spill what does not fit into memory; beyond 512 it is billed while the function runs.
    ephemeral_storage = optional(number, 512)
    # Invocations at once, kept from the account's other functions; -1 takes what is free, 0 stops the function.
    reserved_concurrency = optional(number, -1)
    # More settings, as environment variables of the function; those that are null are left out.
    environment = optional(map(string), {})
    # What is logged, such as `info` or `tidelake_ingest=debug`.
    log_level = optional(string, "info")
    # Days that logs are kept.
    log_retention_days = optional(number, 30)
    # Whether invocations are traced by X-Ray.
    tracing = optional(bool, false)
    # Subnets and security groups that the function runs in. It then reaches S3 only through an endpoint or a NAT gateway. No VPC by default.
    vpc = optional(object({ subnet_ids = list(string), security_group_ids = list(string) }))
    # Tags of every resource.
    tags = optional(map(string), {})
  })
  nullable = false

  validation {
    condition     = try(endswith(var.settings.package, ".zip") && (!startswith(var.settings.package, "s3://") || can(regex("^s3://[^/]+/.+$", var.settings.package))), false)
    error_message = "A package is a path that ends in .zip, or s3://BUCKET/KEY.zip."
  }

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{1,64}$", var.settings.name))
    error_message = "A function's name has at most 64 letters, digits, hyphens and underscores."
  }

  validation {
    condition     = contains(["x86_64", "arm64"], var.settings.architecture)
    error_message = "The architecture is x86_64 or arm64."
  }

  validation {
    condition     = var.settings.memory >= 128 && var.settings.memory <= 10240 && floor(var.settings.memory) == var.settings.memory
    error_message = "A function has 128 to 10240 MB of memory."
  }

  validation {
    condition     = var.settings.timeout >= 3 && var.settings.timeout <= 900 && floor(var.settings.timeout) == var.settings.timeout
    error_message = "An invocation may take 3 to 900 seconds."
  }

  validation {
    condition     = var.settings.ephemeral_storage >= 512 && var.settings.ephemeral_storage <= 10240 && floor(var.settings.ephemeral_storage) == var.settings.ephemeral_storage
    error_message = "/tmp has 512 to 10240 MB."
  }

  validation {
    condition     = var.settings.reserved_concurrency >= -1 && floor(var.settings.reserved_concurrency) == var.settings.reserved_concurrency
    error_message = "Reserved concurrency is -1, 0 or more."
  }

  validation {
    condition     = alltrue([for name in keys(var.settings.environment) : can(regex("^[A-Za-z][A-Za-z0-9_]+$", name))])
    error_message = "The name of an environment variable has letters, digits and underscores, and begins with a letter."
  }

  validation {
    condition     = alltrue([for part in split(",", lower(var.settings.log_level)) : can(regex("^(([a-z0-9_:-]+|[a-z0-9_:-]*\\[[^\\],]*\\])=)?(off|error|warn|info|debug|trace)$", part))])
    error_message = "A level is error, warn, info, debug, trace or off; several for parts of the program are written like info,tidelake_ingest=debug."
  }

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.settings.log_retention_days)
    error_message = "CloudWatch keeps logs for 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731 or 1096 days, or whole years from 5 to 10."
  }

  validation {
    condition     = var.settings.vpc == null || try(length(var.settings.vpc.subnet_ids) > 0 && length(var.settings.vpc.security_group_ids) > 0 && alltrue([for id in var.settings.vpc.subnet_ids : startswith(id, "subnet-")]) && alltrue([for id in var.settings.vpc.security_group_ids : startswith(id, "sg-")]), false)
    error_message = "A function in a VPC has at least one subnet, subnet-…, and one security group, sg-…."
  }

  validation {
    condition     = length(var.settings.tags) <= 50 && alltrue([for key, value in var.settings.tags : length(key) >= 1 && length(key) <= 128 && length(value) <= 256 && !startswith(lower(key), "aws:")])
    error_message = "A resource has at most 50 tags: keys of 1 to 128 characters that do not begin with aws:, values of at most 256."
  }

  # An object's type drops what it does not know, so a misspelt name would be a default without a word.
  validation {
    condition     = length(setsubtract(var.names.settings, keys(var.settings))) == 0
    error_message = "A function has no setting ${join(", ", setsubtract(var.names.settings, keys(var.settings)))}: there are ${join(", ", keys(var.settings))}."
  }
}

variable "names" {
  description = "The names that were given in `settings` and in `url`: one that is not known is refused."
  type        = object({ settings = optional(list(string), []), url = optional(list(string), []) })
  default     = {}
  nullable    = false
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

variable "rights" {
  description = "What the function may do in the root: an output of the access module, `write`, `compact` or `query`."
  type        = string
  nullable    = false

  validation {
    condition     = contains(["write", "compact", "query"], var.rights)
    error_message = "rights is write, compact or query."
  }
}

variable "environment" {
  description = "Environment variables that the module sets which makes the function; those that are null are left out, and those of `settings` win."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "statements" {
  description = "Statements of the role's policy, besides those for the root, tokens, logs, traces and the network."
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
  description = "The function's URL and who may ask it; null for none. The modules whose function has one have this as their variable `url`, but for `invoke_mode`."
  type = object({
    # Who may ask: `AWS_IAM`, who signs requests and has the right; `NONE`, who is one of the `users`, or brings a token of `token_secret_arn`.
    auth = optional(string, "AWS_IAM")
    # Whether requests have to be of users of the root, or of their programs, who may do what was granted to them. Not beside `token_secret_arn`.
    users = optional(bool, false)
    # ARN of a secret of Secrets Manager with the tokens that the function accepts and what each may do: `{"tokens": [{"token": "…", "name": "…", "read": ["DATABASE"], "write": ["DATABASE"]}]}`. With one, each request needs a token, also beside a signature.
    token_secret_arn = optional(string)
    # ARN of the KMS key of that secret, if it is not the account's default.
    token_secret_kms_key_arn = optional(string)
    # `BUFFERED` or `RESPONSE_STREAM`.
    invoke_mode = optional(string, "BUFFERED")
  })
  default = null

  validation {
    condition     = var.url == null || try(contains(["AWS_IAM", "NONE"], var.url.auth), false)
    error_message = "auth is AWS_IAM or NONE."
  }

  validation {
    condition     = var.url == null || try(var.url.auth != "NONE" || var.url.token_secret_arn != null || var.url.users, false)
    error_message = "A URL that anybody may ask needs users, or token_secret_arn, a secret with the tokens that the function accepts."
  }

  validation {
    condition     = var.url == null || try(!var.url.users || var.url.token_secret_arn == null, false)
    error_message = "Either users of the root come in, or who brings one of the tokens of token_secret_arn."
  }

  validation {
    condition     = var.url == null || try(var.url.token_secret_arn == null || can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:", var.url.token_secret_arn)), false)
    error_message = "A secret is named by its ARN, arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME."
  }

  validation {
    condition     = var.url == null || try(var.url.token_secret_kms_key_arn == null || can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/", var.url.token_secret_kms_key_arn)), false)
    error_message = "A KMS key is named by its ARN, arn:aws:kms:REGION:ACCOUNT:key/ID."
  }

  validation {
    condition     = var.url == null || contains(["BUFFERED", "RESPONSE_STREAM"], try(var.url.invoke_mode, ""))
    error_message = "invoke_mode is BUFFERED or RESPONSE_STREAM."
  }

  validation {
    condition     = length(setsubtract(var.names.url, try(keys(var.url), []))) == 0
    error_message = "A URL has no setting ${join(", ", setsubtract(var.names.url, try(keys(var.url), [])))}: there are auth, users, token_secret_arn and token_secret_kms_key_arn."
  }
}
