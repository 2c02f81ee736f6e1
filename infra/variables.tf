variable "name" {
  description = "Prefix of the names of all resources; two deployments in one account need different names."
  type        = string
  default     = "tidelake"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,22}[a-z0-9]$", var.name))
    error_message = "Invalid name: expected 2 to 24 lower-case letters, digits and hyphens, beginning with a letter."
  }
}

variable "packages" {
  description = "Location of the functions' zips: a directory filled by `cargo xtask package`, or `s3://BUCKET/PREFIX` with one prefix per version."
  type        = string
  nullable    = false

  validation {
    condition     = length(var.packages) > 0 && !endswith(var.packages, "/")
    error_message = "Invalid packages: expected a directory or s3://BUCKET/PREFIX, without trailing slash."
  }
}

variable "architecture" {
  description = "Architecture of zips and image: x86_64 or arm64."
  type        = string
  default     = "x86_64"
  nullable    = false

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "Invalid architecture: expected x86_64 or arm64."
  }
}

variable "storage" {
  description = "The bucket: see the variables of [storage](modules/storage/README.md)."
  type = object({
    create_bucket   = optional(bool)
    bucket          = optional(string)
    prefix          = optional(string)
    force_destroy   = optional(bool)
    kms_key_arn     = optional(string)
    lifecycle_rules = optional(bool)
    results_days    = optional(number)
    tiers           = optional(list(object({ days = number, class = string })))
    replicate_to    = optional(object({ bucket_arn = string, kms_key_arn = optional(string), time_control = optional(bool) }))
    noncurrent_days = optional(number)
  })
  default  = {}
  nullable = false
}

variable "ingest" {
  description = "Writes over HTTP: see the variables of [ingest](modules/ingest/README.md). Null omits them."
  type = object({
    memory                   = optional(number)
    timeout                  = optional(number)
    reserved_concurrency     = optional(number)
    auth                     = optional(string)
    users                    = optional(bool)
    token_secret_arn         = optional(string)
    token_secret_kms_key_arn = optional(string)
    auto_create_database     = optional(bool)
    max_body                 = optional(string)
    environment              = optional(map(string))
  })
  default = {}
}

variable "queue" {
  description = "Writes from a queue or a stream: see the variables of [queue](modules/queue/README.md). Null, the default, omits them."
  type = object({
    database               = string
    format                 = optional(string)
    other_formats          = optional(list(string))
    other_databases        = optional(list(string))
    precision              = optional(string)
    dedup                  = optional(bool)
    fifo                   = optional(bool)
    kinesis_stream_arn     = optional(string)
    starting_position      = optional(string)
    parallelization_factor = optional(number)
    batch_size             = optional(number)
    batch_seconds          = optional(number)
    maximum_concurrency    = optional(number)
    max_receive_count      = optional(number)
    visibility_timeout     = optional(number)
    message_retention_days = optional(number)
    source_kms_key_arn     = optional(string)
    auto_create_database   = optional(bool)
    memory                 = optional(number)
    timeout                = optional(number)
    reserved_concurrency   = optional(number)
    environment            = optional(map(string))
  })
  default = null
}

variable "compaction" {
  description = "Compaction, retention and garbage collection: see the variables of [compaction](modules/compaction/README.md). `on_demand_only` is a null `schedule`, `never` a null `collect_schedule` or `sweep_schedule`. Null omits it, if servers compact."
  type = object({
    schedule             = optional(string)
    collect_schedule     = optional(string)
    sweep_schedule       = optional(string)
    on_demand_only       = optional(bool, false)
    continues            = optional(bool)
    memory               = optional(number)
    timeout              = optional(number)
    reserved_concurrency = optional(number)
    environment          = optional(map(string))
  })
  default = {}
}

variable "query" {
  description = "SQL over HTTP: see the variables of [query](modules/query/README.md). Null omits it."
  type = object({
    memory                   = optional(number)
    timeout                  = optional(number)
    ephemeral_storage        = optional(number)
    response                 = optional(string)
    reserved_concurrency     = optional(number)
    auth                     = optional(string)
    users                    = optional(bool)
    token_secret_arn         = optional(string)
    token_secret_kms_key_arn = optional(string)
    environment              = optional(map(string))
  })
  default = {}
}

variable "flight" {
  description = "Flight SQL: see the variables of [flight](modules/flight/README.md). Null, the default, omits it: it is billed while idle."
  type = object({
    image                     = string
    image_repository_arn      = optional(string)
    vpc_id                    = string
    subnet_ids                = list(string)
    load_balancer_subnet_ids  = optional(list(string))
    allowed_cidrs             = list(string)
    direct_cidrs              = optional(list(string))
    auth                      = optional(string)
    admin_password_secret_arn = optional(string)
    certificate_arn           = string
    hostname                  = string
    zone_id                   = optional(string)
    port                      = optional(number)
    internal                  = optional(bool)
    assign_public_ip          = optional(bool)
    cpu                       = optional(number)
    memory                    = optional(number)
    min_tasks                 = optional(number)
    max_tasks                 = optional(number)
    cpu_target                = optional(number)
    disk_cache_size           = optional(string, "10GiB")
    disk_gib                  = optional(number)
    namespace                 = optional(string, "tidelake.internal")
    s3_endpoint_route_tables  = optional(list(string))
    deletion_protection       = optional(bool)
    environment               = optional(map(string))
  })
  default = null
}

variable "observability" {
  description = "Alarms, dashboard, budget: see the variables of [observability](modules/observability/README.md). Null, the default, omits them: beyond an account's free tier they are billed while idle. Logs are kept in any case."
  type = object({
    alarms             = optional(bool)
    email              = optional(string)
    lag_seconds        = optional(number)
    compaction_seconds = optional(number)
    near_timeout       = optional(number)
    stream_age_seconds = optional(number)
    dashboard          = optional(bool)
    monthly_budget     = optional(number)
    budget_tag         = optional(object({ key = string, value = string }))
  })
  default = null

  validation {
    condition     = var.observability == null || try(var.observability.alarms, null) == false || try(var.observability.compaction_seconds, null) != null || !startswith(try(coalesce(var.compaction.schedule, "-"), "-"), "cron") || try(var.compaction.on_demand_only, false)
    error_message = "The interval of a cron(…) schedule is unknown: set compaction_seconds to its longest interval, so that alarms detect late runs."
  }
}

variable "log_level" {
  description = "Log filter of functions and servers, such as `info` or `tidelake_ingest=debug`."
  type        = string
  default     = "info"
  nullable    = false

  validation {
    condition     = alltrue([for part in split(",", lower(var.log_level)) : can(regex("^(([a-z0-9_:-]+|[a-z0-9_:-]*\\[[^\\],]*\\])=)?(off|error|warn|info|debug|trace)$", part))])
    error_message = "Invalid log filter: expected error, warn, info, debug, trace or off, or several levels like info,tidelake_ingest=debug."
  }
}

variable "log_retention_days" {
  description = "Retention of logs in days."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "Invalid retention: CloudWatch supports 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731 or 1096 days, or whole years from 5 to 10."
  }
}

variable "tracing" {
  description = "Whether invocations are traced by X-Ray."
  type        = bool
  default     = false
  nullable    = false
}

variable "vpc" {
  description = "Subnets and security groups of the functions; none by default. Functions in a VPC reach S3 only through an endpoint or a NAT gateway: `s3_endpoint_route_tables` are the route tables of the subnets, in `vpc_id`, that get a gateway endpoint, which is free. See [in a VPC](#in-a-vpc)."
  type = object({
    subnet_ids               = list(string)
    security_group_ids       = list(string)
    vpc_id                   = optional(string)
    s3_endpoint_route_tables = optional(list(string), [])
  })
  default = null

  validation {
    condition     = length(try(var.vpc.s3_endpoint_route_tables, [])) == 0 || can(regex("^vpc-", var.vpc.vpc_id))
    error_message = "An S3 endpoint needs vpc_id, the VPC of the route tables, vpc-…."
  }

  validation {
    condition     = alltrue([for id in try(var.vpc.s3_endpoint_route_tables, []) : startswith(id, "rtb-")])
    error_message = "Invalid route table: expected an ID, rtb-…."
  }

  validation {
    condition     = length(setintersection(try(var.vpc.s3_endpoint_route_tables, []), try(var.flight.s3_endpoint_route_tables, null) == null ? [] : var.flight.s3_endpoint_route_tables)) == 0
    error_message = "A route table can have only one S3 endpoint: name it for flight or for vpc, not for both."
  }
}

variable "tags" {
  description = "Tags of every resource."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = length(var.tags) <= 50 && alltrue([for key, value in var.tags : length(key) >= 1 && length(key) <= 128 && length(value) <= 256 && !startswith(lower(key), "aws:")])
    error_message = "Invalid tags: expected at most 50, with keys of 1 to 128 characters that do not begin with aws:, values of at most 256."
  }
}
