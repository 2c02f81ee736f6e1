variable "name" {
  description = "Prefix of the names of all resources."
  type        = string
  default     = "tidelake"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,22}[a-z0-9]$", var.name))
    error_message = "Invalid name: expected 2 to 24 lower-case letters, digits and hyphens, beginning with a letter."
  }
}

variable "create_bucket" {
  description = "Whether to create the bucket. `false` uses `bucket` unchanged, which keeps the bucket when everything else is destroyed."
  type        = bool
  default     = true
  nullable    = false
}

variable "bucket" {
  description = "Name of the bucket; by default `NAME-ACCOUNT-REGION`. Required if the bucket is not created here."
  type        = string
  default     = null

  validation {
    condition     = var.bucket == null || can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.bucket))
    error_message = "Invalid name of a bucket: expected 3 to 63 lower-case letters, digits, dots and hyphens."
  }

  validation {
    condition     = var.create_bucket || var.bucket != null
    error_message = "Without create_bucket, bucket has to name an existing bucket."
  }
}

variable "prefix" {
  description = "Key prefix of the root, without leading and trailing slash."
  type        = string
  default     = "tidelake"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$", var.prefix))
    error_message = "Invalid prefix: expected names of letters, digits, dots, hyphens and underscores, joined by single slashes."
  }
}

variable "force_destroy" {
  description = "Whether destroy deletes a non-empty bucket. With `false`, destroy fails at a non-empty bucket after deleting everything else."
  type        = bool
  default     = false
  nullable    = false
}

variable "kms_key_arn" {
  description = "ARN of a KMS key that encrypts the objects. By default S3 encrypts them with its own keys, which are free."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null || can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/", var.kms_key_arn))
    error_message = "Invalid KMS key: expected an ARN, arn:aws:kms:REGION:ACCOUNT:key/ID."
  }
}

variable "lifecycle_rules" {
  description = "Whether the bucket gets a lifecycle configuration: results expire, unfinished uploads are aborted, tiers apply. Without it large results must be deleted manually."
  type        = bool
  default     = true
  nullable    = false

  validation {
    condition     = var.lifecycle_rules || (var.replicate_to == null && !var.is_replica)
    error_message = "A bucket with versioning needs lifecycle_rules, or deleted objects stay forever."
  }
}

variable "results_days" {
  description = "Days after which large results of queries are deleted."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.results_days >= 1 && floor(var.results_days) == var.results_days
    error_message = "Invalid retention of results: expected a whole number of days, at least 1."
  }
}

variable "tiers" {
  description = <<-EOT
    Storage classes that data files move to by age, in days after they were written. A merge writes a file anew, so age counts
    from the last merge. Only classes that a query reads without a restore; only objects above 128 KiB, below which S3 bills as
    for 128 KiB. STANDARD_IA takes files of 30 days and more and bills them for 30 days, GLACIER_IR for 90.
  EOT
  type        = list(object({ days = number, class = string }))
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for tier in var.tiers : contains(["INTELLIGENT_TIERING", "STANDARD_IA", "GLACIER_IR"], tier.class)])
    error_message = "A tier is INTELLIGENT_TIERING, STANDARD_IA or GLACIER_IR: others have to be restored before they can be read, or lie in one zone."
  }

  validation {
    condition     = alltrue([for tier in var.tiers : tier.days >= (tier.class == "STANDARD_IA" ? 30 : 0) && floor(tier.days) == tier.days])
    error_message = "Invalid days: expected whole numbers, at least 30 for STANDARD_IA."
  }

  validation {
    condition     = length(distinct(var.tiers[*].class)) == length(var.tiers)
    error_message = "A storage class occurs more than once in the tiers."
  }

  # S3 checks the remaining rules only on apply.
  validation {
    condition     = alltrue([for i, tier in var.tiers : i == 0 || tier.days > var.tiers[max(i - 1, 0)].days])
    error_message = "Invalid order of tiers: each must begin later than the one before."
  }

  validation {
    condition = alltrue([
      for way in [{ STANDARD_IA = 1, INTELLIGENT_TIERING = 2, GLACIER_IR = 3 }] : alltrue([
        for i, tier in var.tiers : lookup(way, tier.class, 0) >= lookup(way, var.tiers[max(i - 1, 0)].class, 0)
      ])
    ])
    error_message = "Invalid order of tiers: files can only move from STANDARD_IA to INTELLIGENT_TIERING to GLACIER_IR, any of which may be left out."
  }

  validation {
    condition     = alltrue([for i, tier in var.tiers : i == 0 || var.tiers[max(i - 1, 0)].class != "STANDARD_IA" || tier.days >= var.tiers[max(i - 1, 0)].days + 30])
    error_message = "A file stays in STANDARD_IA for at least 30 days: the tier after it begins 30 days later."
  }
}

variable "replicate_to" {
  description = <<-EOT
    A bucket in another region that gets a copy of every object of the root, as `bucket_arn` and, if it is encrypted with a key of
    its own, `kms_key_arn`. A replica can be queried by functions or servers that only read; it is some minutes behind, and queries
    fail while objects are still on their way. `time_control` has S3 copy nearly all within 15 minutes and tell CloudWatch how far it
    is behind, which is billed by the GB. S3 replicates only between buckets with versioning, so this turns versioning on, against what
    is said at `noncurrent_days`.
  EOT
  type        = object({ bucket_arn = string, kms_key_arn = optional(string), time_control = optional(bool, false) })
  default     = null

  validation {
    condition     = var.replicate_to == null || can(regex("^arn:[a-z-]+:s3:::[^/*]+$", var.replicate_to.bucket_arn))
    error_message = "Invalid bucket: expected an ARN, arn:aws:s3:::BUCKET."
  }

  validation {
    condition     = var.replicate_to == null || var.create_bucket
    error_message = "Replication is only supported for a bucket created here."
  }

  validation {
    condition     = var.replicate_to == null || (try(var.replicate_to.kms_key_arn, null) == null) == (var.kms_key_arn == null)
    error_message = "Either both buckets or neither must have a KMS key: S3 replicates objects under a KMS key only to a bucket with a KMS key."
  }
}

variable "is_replica" {
  description = "Whether this bucket is the replication target of another bucket: turns versioning on, as S3 requires."
  type        = bool
  default     = false
  nullable    = false

  validation {
    condition     = !var.is_replica || var.replicate_to == null
    error_message = "A replica cannot be replicated again."
  }

  validation {
    condition     = !var.is_replica || var.create_bucket
    error_message = "A replica must be created here, with versioning."
  }
}

variable "noncurrent_days" {
  description = <<-EOT
    With replication: days after which S3 deletes what was deleted. Versioning is off otherwise, by design: every object is written
    once and never overwritten, so there are no older versions to go back to, and the collector deletes an object only when no
    version of the metadata has needed it for an hour or more. With versioning, that garbage stays and is billed, for ever
    without this limit.
  EOT
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.noncurrent_days >= 1 && floor(var.noncurrent_days) == var.noncurrent_days
    error_message = "Invalid retention of deleted objects: expected a whole number of days, at least 1."
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
