variable "name" {
  description = "Name of the service and of what belongs to it."
  type        = string
  default     = "tidelake-flight"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,30}[a-z0-9]$", var.name))
    error_message = "The name has 2 to 32 lower-case letters, digits and hyphens, as that of a load balancer."
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

variable "image" {
  description = "The container image of the server, with a tag or a digest."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[^\\s]+(:[A-Za-z0-9_][A-Za-z0-9_.-]*|@sha256:[0-9a-f]{64})$", var.image)) && !endswith(var.image, ":latest")
    error_message = "An image is named with a tag other than latest, or by its digest: tasks that start later have to run the same."
  }
}

variable "image_repository_arn" {
  description = "ARN of the ECR repository that the image lies in; null for an image that anybody may pull."
  type        = string
  default     = null

  validation {
    condition     = var.image_repository_arn == null || can(regex("^arn:[a-z-]+:ecr:[a-z0-9-]+:[0-9]{12}:repository/", var.image_repository_arn))
    error_message = "A repository is named by its ARN, arn:aws:ecr:REGION:ACCOUNT:repository/NAME."
  }
}

variable "architecture" {
  description = "What the image was built for."
  type        = string
  default     = "x86_64"
  nullable    = false

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "The architecture is x86_64 or arm64."
  }
}

variable "cpu" {
  description = "Processor of a task; 1024 are one core."
  type        = number
  default     = 1024
  nullable    = false

  validation {
    condition     = contains([256, 512, 1024, 2048, 4096, 8192, 16384], var.cpu)
    error_message = "Fargate has tasks of 256, 512, 1024, 2048, 4096, 8192 and 16384."
  }
}

variable "memory" {
  description = "Memory of a task in MiB; Fargate takes two to eight GiB a core in whole GiB."
  type        = number
  default     = 4096
  nullable    = false

  validation {
    condition     = var.memory >= 2 * var.cpu && var.memory <= 8 * var.cpu && var.memory % 512 == 0
    error_message = "Memory is two to eight times cpu."
  }
}

variable "min_tasks" {
  description = "Tasks that always run."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.min_tasks >= 1 && floor(var.min_tasks) == var.min_tasks
    error_message = "At least one task runs."
  }
}

variable "max_tasks" {
  description = "Tasks that run at most."
  type        = number
  default     = 4
  nullable    = false

  validation {
    condition     = var.max_tasks >= var.min_tasks && floor(var.max_tasks) == var.max_tasks
    error_message = "max_tasks is at least min_tasks."
  }
}

variable "cpu_target" {
  description = "Share of the processor, in percent, that tasks are added and taken away to keep."
  type        = number
  default     = 60
  nullable    = false

  validation {
    condition     = var.cpu_target >= 10 && var.cpu_target <= 90
    error_message = "The target is 10 to 90 percent."
  }
}

variable "disk_cache_size" {
  description = "How much of what queries read from S3 a task keeps on its disk, such as `10GiB`; null nothing. It has to fit into the task's disk, beside what queries spill."
  type        = string
  default     = "10GiB"

  validation {
    condition     = var.disk_cache_size == null || can(regex("^[1-9][0-9]*(MiB|GiB)$", var.disk_cache_size))
    error_message = "A size is a whole number with MiB or GiB."
  }
}

variable "disk_gib" {
  description = "Disk of a task in GiB, 21 to 200; null takes the 20 GiB that cost nothing."
  type        = number
  default     = null

  validation {
    condition     = var.disk_gib == null || try(var.disk_gib >= 21 && var.disk_gib <= 200, false)
    error_message = "Fargate takes 21 to 200 GiB."
  }
}

variable "vpc_id" {
  description = "The VPC."
  type        = string
  nullable    = false

  validation {
    condition     = startswith(var.vpc_id, "vpc-")
    error_message = "A VPC is named by its id, vpc-…."
  }
}

variable "subnet_ids" {
  description = "Subnets of the tasks. They reach S3, the image and CloudWatch by a NAT gateway, by endpoints, or with `assign_public_ip`."
  type        = list(string)
  nullable    = false

  validation {
    condition     = length(var.subnet_ids) > 0
    error_message = "Tasks need at least one subnet."
  }

  validation {
    condition     = alltrue([for id in var.subnet_ids : startswith(id, "subnet-")])
    error_message = "A subnet is named by its id, subnet-…."
  }
}

variable "load_balancer_subnet_ids" {
  description = "Subnets of the load balancer; by default those of the tasks."
  type        = list(string)
  default     = null

  validation {
    condition     = var.load_balancer_subnet_ids == null || try(length(var.load_balancer_subnet_ids) > 0 && alltrue([for id in var.load_balancer_subnet_ids : startswith(id, "subnet-")]), false)
    error_message = "The load balancer needs at least one subnet; a subnet is named by its id, subnet-…."
  }
}

variable "internal" {
  description = "Whether the load balancer has private addresses only."
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
  description = "Networks that may connect to the load balancer. Where `auth` is `off`, whoever can connect can read and write: the whole internet is refused then."
  type        = list(string)
  nullable    = false

  validation {
    condition     = alltrue([for cidr in var.allowed_cidrs : can(cidrhost(cidr, 0)) && !strcontains(cidr, ":")])
    error_message = "A network is written like 10.0.0.0/16."
  }

  validation {
    condition     = var.auth == "on" || !anytrue([for cidr in var.allowed_cidrs : endswith(cidr, "/0")])
    error_message = "The whole internet may not connect to a server that lets everybody in: set auth to on."
  }
}

variable "auth" {
  description = "Whether requests have to say who sends them: `on`, or `off`, which lets everybody do everything."
  type        = string
  default     = "on"
  nullable    = false

  validation {
    condition     = contains(["on", "off"], var.auth)
    error_message = "auth is on or off."
  }
}

variable "admin_password_secret_arn" {
  description = "ARN of a secret of Secrets Manager that is the password of the first user, `admin`, who is made where the root has no users. Null where `tidelake access` has made users."
  type        = string
  default     = null

  validation {
    condition     = var.admin_password_secret_arn == null || can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:", var.admin_password_secret_arn))
    error_message = "A secret is named by its ARN, arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME."
  }
}

variable "direct_cidrs" {
  description = "Networks that may connect to the tasks themselves, past the load balancer and without TLS, by the names of service discovery."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for cidr in var.direct_cidrs : can(cidrhost(cidr, 0)) && !strcontains(cidr, ":")])
    error_message = "A network is written like 10.0.0.0/16."
  }

  validation {
    condition     = !anytrue([for cidr in var.direct_cidrs : endswith(cidr, "/0")])
    error_message = "The whole internet may not connect to tasks, which speak no TLS."
  }
}

variable "certificate_arn" {
  description = "ARN of the certificate of ACM that the load balancer shows."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^arn:[a-z-]+:acm:[a-z0-9-]+:[0-9]{12}:certificate/", var.certificate_arn))
    error_message = "A certificate is named by its ARN, arn:aws:acm:REGION:ACCOUNT:certificate/ID."
  }
}

variable "hostname" {
  description = "The name that clients connect to, one that the certificate is for."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9-]+(\\.[a-z0-9-]+)+$", var.hostname))
    error_message = "A host name is written like flight.example.com."
  }
}

variable "zone_id" {
  description = "Zone of Route 53 where that name is made; null where it is made elsewhere, as an alias of the load balancer."
  type        = string
  default     = null

  validation {
    condition     = var.zone_id == null || can(regex("^Z[A-Z0-9]+$", var.zone_id))
    error_message = "A zone of Route 53 is named by its id, Z…."
  }
}

variable "port" {
  description = "Port of the load balancer."
  type        = number
  default     = 443
  nullable    = false

  validation {
    condition     = var.port >= 1 && var.port <= 65535
    error_message = "A port is 1 to 65535."
  }
}

variable "namespace" {
  description = "Private DNS name under which Cloud Map lists the tasks, as `NAME.NAMESPACE`; null for no service discovery. It makes a private zone of Route 53, which is billed."
  type        = string
  default     = "tidelake.internal"

  validation {
    condition     = var.namespace == null || can(regex("^[a-z0-9-]+(\\.[a-z0-9-]+)*$", var.namespace))
    error_message = "A namespace is written like tidelake.internal."
  }
}

variable "s3_endpoint_route_tables" {
  description = "Route tables that get a gateway endpoint of S3, which costs nothing and keeps the traffic off NAT gateways; none where the VPC has one."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for id in var.s3_endpoint_route_tables : startswith(id, "rtb-")])
    error_message = "A route table is named by its id, rtb-…."
  }
}

variable "deletion_protection" {
  description = "Whether the load balancer is protected from destroy."
  type        = bool
  default     = false
  nullable    = false
}

variable "environment" {
  description = "More settings of the server, as environment variables."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for name in keys(var.environment) : can(regex("^[A-Za-z][A-Za-z0-9_]+$", name))])
    error_message = "The name of an environment variable has letters, digits and underscores, and begins with a letter."
  }
}

variable "log_level" {
  description = "What is logged, such as `info` or `tidelake_query=debug`."
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
