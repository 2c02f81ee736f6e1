variable "name" {
  description = "Name of the service and of its resources."
  type        = string
  default     = "tidelake-flight"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,30}[a-z0-9]$", var.name))
    error_message = "Invalid name: expected 2 to 32 lower-case letters, digits and hyphens, as for a load balancer."
  }
}

variable "store" {
  description = "Location of the root: the output `store` of the storage module."
  type = object({
    url         = string
    bucket_arn  = string
    prefix      = string
    kms_key_arn = optional(string)
  })
  nullable = false

  validation {
    condition     = can(regex("^s3://[^/]+/.+$", var.store.url)) && can(regex("^arn:[a-z-]+:s3:::[^/*]+$", var.store.bucket_arn)) && endswith(var.store.url, "/${var.store.prefix}")
    error_message = "Invalid store: expected the output store of the storage module, whose url is s3://BUCKET/PREFIX, bucket_arn is arn:aws:s3:::BUCKET."
  }
}

variable "image" {
  description = "The container image of the server, with a tag or a digest."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[^\\s]+(:[A-Za-z0-9_][A-Za-z0-9_.-]*|@sha256:[0-9a-f]{64})$", var.image)) && !endswith(var.image, ":latest")
    error_message = "Invalid image: expected a tag other than latest, or a digest, so that later tasks run the same image."
  }
}

variable "image_repository_arn" {
  description = "ARN of the ECR repository of the image; null for a public image."
  type        = string
  default     = null

  validation {
    condition     = var.image_repository_arn == null || can(regex("^arn:[a-z-]+:ecr:[a-z0-9-]+:[0-9]{12}:repository/", var.image_repository_arn))
    error_message = "Invalid repository: expected an ARN, arn:aws:ecr:REGION:ACCOUNT:repository/NAME."
  }
}

variable "architecture" {
  description = "Architecture of the image: x86_64 or arm64."
  type        = string
  default     = "x86_64"
  nullable    = false

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "Invalid architecture: expected x86_64 or arm64."
  }
}

variable "cpu" {
  description = "CPU units of a task; 1024 are one core."
  type        = number
  default     = 1024
  nullable    = false

  validation {
    condition     = contains([256, 512, 1024, 2048, 4096, 8192, 16384], var.cpu)
    error_message = "Invalid cpu: expected 256, 512, 1024, 2048, 4096, 8192 or 16384."
  }
}

variable "memory" {
  description = "Memory of a task in MiB; Fargate supports two to eight GiB per core in whole GiB."
  type        = number
  default     = 4096
  nullable    = false

  validation {
    condition     = var.memory >= 2 * var.cpu && var.memory <= 8 * var.cpu && var.memory % 512 == 0
    error_message = "Invalid memory: expected two to eight times cpu."
  }
}

variable "min_tasks" {
  description = "Minimum number of tasks."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.min_tasks >= 1 && floor(var.min_tasks) == var.min_tasks
    error_message = "Invalid min_tasks: expected at least 1."
  }
}

variable "max_tasks" {
  description = "Maximum number of tasks."
  type        = number
  default     = 4
  nullable    = false

  validation {
    condition     = var.max_tasks >= var.min_tasks && floor(var.max_tasks) == var.max_tasks
    error_message = "Invalid max_tasks: expected at least min_tasks."
  }
}

variable "cpu_target" {
  description = "Target CPU utilisation in percent for autoscaling."
  type        = number
  default     = 60
  nullable    = false

  validation {
    condition     = var.cpu_target >= 10 && var.cpu_target <= 90
    error_message = "Invalid CPU target: expected 10 to 90 percent."
  }
}

variable "disk_cache_size" {
  description = "Size of the disk cache of a task, such as `10GiB`; null for none. It must fit on the task's disk together with spill files."
  type        = string
  default     = "10GiB"

  validation {
    condition     = var.disk_cache_size == null || can(regex("^[1-9][0-9]*(MiB|GiB)$", var.disk_cache_size))
    error_message = "Invalid size: expected a whole number with MiB or GiB."
  }
}

variable "disk_gib" {
  description = "Disk of a task in GiB, 21 to 200; null for the free 20 GiB."
  type        = number
  default     = null

  validation {
    condition     = var.disk_gib == null || try(var.disk_gib >= 21 && var.disk_gib <= 200, false)
    error_message = "Invalid disk size: expected 21 to 200 GiB."
  }
}

variable "vpc_id" {
  description = "The VPC."
  type        = string
  nullable    = false

  validation {
    condition     = startswith(var.vpc_id, "vpc-")
    error_message = "Invalid VPC: expected an ID, vpc-…."
  }
}

variable "subnet_ids" {
  description = "Subnets of the tasks. Tasks reach S3, the image registry and CloudWatch through a NAT gateway, endpoints, or public addresses (`assign_public_ip`)."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.subnet_ids) > 0
    error_message = "Tasks need at least one subnet."
  }

  validation {
    condition     = alltrue([for id in var.subnet_ids : startswith(id, "subnet-")])
    error_message = "Invalid subnet: expected an ID, subnet-…."
  }
}

variable "load_balancer_subnet_ids" {
  description = "Subnets of the load balancer; by default those of the tasks."
  type        = list(string)
  default     = null

  validation {
    condition     = var.load_balancer_subnet_ids == null || try(length(var.load_balancer_subnet_ids) > 0 && alltrue([for id in var.load_balancer_subnet_ids : startswith(id, "subnet-")]), false)
    error_message = "Invalid subnets of the load balancer: expected at least one ID, subnet-…."
  }
}

variable "internal" {
  description = "Whether the load balancer has only private addresses."
  type        = bool
  default     = true
  nullable    = false
}

variable "assign_public_ip" {
  description = "Whether tasks have public addresses, each of which is billed."
  type        = bool
  default     = false
  nullable    = false
}

variable "allowed_cidrs" {
  description = "Networks that may connect to the load balancer. With `auth` `off`, every client that can connect can read and write, so the whole internet is refused."
  type        = list(string)
  nullable    = false

  validation {
    condition     = alltrue([for cidr in var.allowed_cidrs : can(cidrhost(cidr, 0)) && !strcontains(cidr, ":")])
    error_message = "Invalid network: expected a CIDR like 10.0.0.0/16."
  }

  validation {
    condition     = var.auth == "on" || !anytrue([for cidr in var.allowed_cidrs : endswith(cidr, "/0")])
    error_message = "The whole internet may not connect to a server without authentication: set auth to on."
  }
}

variable "auth" {
  description = "Whether requests need credentials: `on`, or `off`, which gives every client all rights."
  type        = string
  default     = "on"
  nullable    = false

  validation {
    condition     = contains(["on", "off"], var.auth)
    error_message = "Invalid auth: expected on or off."
  }
}

variable "admin_password_secret_arn" {
  description = "ARN of a Secrets Manager secret with the password of the first user, `admin`, who is created if the root has no users. Null if `tidelake access` has created users."
  type        = string
  default     = null

  validation {
    condition     = var.admin_password_secret_arn == null || can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:", var.admin_password_secret_arn))
    error_message = "Invalid secret: expected an ARN, arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME."
  }
}

variable "direct_cidrs" {
  description = "Networks that may connect directly to the tasks, without load balancer and TLS, by names of service discovery."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for cidr in var.direct_cidrs : can(cidrhost(cidr, 0)) && !strcontains(cidr, ":")])
    error_message = "Invalid network: expected a CIDR like 10.0.0.0/16."
  }

  validation {
    condition     = !anytrue([for cidr in var.direct_cidrs : endswith(cidr, "/0")])
    error_message = "The whole internet may not connect to tasks, which do not use TLS."
  }
}

variable "certificate_arn" {
  description = "ARN of the load balancer's ACM certificate."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^arn:[a-z-]+:acm:[a-z0-9-]+:[0-9]{12}:certificate/", var.certificate_arn))
    error_message = "Invalid certificate: expected an ARN, arn:aws:acm:REGION:ACCOUNT:certificate/ID."
  }
}

variable "hostname" {
  description = "Host name that clients connect to; the certificate must cover it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9-]+(\\.[a-z0-9-]+)+$", var.hostname))
    error_message = "Invalid host name: expected a name like flight.example.com."
  }
}

variable "zone_id" {
  description = "Route 53 zone in which the host name is created; null if it is created elsewhere, as an alias of the load balancer."
  type        = string
  default     = null

  validation {
    condition     = var.zone_id == null || can(regex("^Z[A-Z0-9]+$", var.zone_id))
    error_message = "Invalid Route 53 zone: expected an ID, Z…."
  }
}

variable "port" {
  description = "Port of the load balancer."
  type        = number
  default     = 443
  nullable    = false

  validation {
    condition     = var.port >= 1 && var.port <= 65535
    error_message = "Invalid port: expected 1 to 65535."
  }
}

variable "namespace" {
  description = "Private DNS namespace in which Cloud Map lists the tasks as `NAME.NAMESPACE`; null for no service discovery. Creates a private Route 53 zone, which is billed."
  type        = string
  default     = "tidelake.internal"

  validation {
    condition     = var.namespace == null || can(regex("^[a-z0-9-]+(\\.[a-z0-9-]+)*$", var.namespace))
    error_message = "Invalid namespace: expected a name like tidelake.internal."
  }
}

variable "s3_endpoint_route_tables" {
  description = "Route tables that get a gateway endpoint of S3, which is free and keeps traffic off NAT gateways; empty if the VPC has one."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for id in var.s3_endpoint_route_tables : startswith(id, "rtb-")])
    error_message = "Invalid route table: expected an ID, rtb-…."
  }
}

variable "deletion_protection" {
  description = "Whether the load balancer is protected from deletion."
  type        = bool
  default     = false
  nullable    = false
}

variable "environment" {
  description = "Additional settings of the server, as environment variables."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for name in keys(var.environment) : can(regex("^[A-Za-z][A-Za-z0-9_]+$", name))])
    error_message = "Invalid name of an environment variable: expected letters, digits and underscores, beginning with a letter."
  }
}

variable "log_level" {
  description = "Log filter, such as `info` or `tidelake_query=debug`."
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
