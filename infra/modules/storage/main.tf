data "aws_partition" "current" {}
data "aws_region" "current" {}
data "aws_caller_identity" "current" {}

locals {
  wanted = coalesce(var.bucket, "${var.name}-${data.aws_caller_identity.current.account_id}-${data.aws_region.current.name}")
  # Refers to the resource, so that all writers are destroyed before the bucket.
  bucket     = var.create_bucket ? aws_s3_bucket.this[0].bucket : local.wanted
  bucket_arn = "arn:${data.aws_partition.current.partition}:s3:::${local.bucket}"
  versioned  = var.create_bucket && (var.replicate_to != null || var.is_replica)
}

# Objects are written once and collected when no longer needed: access logs, events and object versions would cost more
# than they are worth. The chain of versions under meta/ records all changes.
resource "aws_s3_bucket" "this" {
  #checkov:skip=CKV_AWS_18:Access logs of a database's own bucket cost as much as its data; CloudTrail data events are there for who needs them
  #checkov:skip=CKV_AWS_21:Versioning is off by design, see the variable noncurrent_days
  #checkov:skip=CKV_AWS_144:Replication is an option, see the variable replicate_to
  #checkov:skip=CKV_AWS_145:A KMS key is an option, see the variable kms_key_arn
  #checkov:skip=CKV2_AWS_61:The lifecycle configuration can be left out, see the variable lifecycle_rules
  #checkov:skip=CKV2_AWS_62:Nothing waits for events of the bucket
  count = var.create_bucket ? 1 : 0

  bucket        = local.wanted
  force_destroy = var.force_destroy
  tags          = var.tags
}

resource "aws_s3_bucket_ownership_controls" "this" {
  count = var.create_bucket ? 1 : 0

  bucket = aws_s3_bucket.this[0].id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_public_access_block" "this" {
  count = var.create_bucket ? 1 : 0

  bucket                  = aws_s3_bucket.this[0].id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  count = var.create_bucket ? 1 : 0

  bucket = aws_s3_bucket.this[0].id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm     = var.kms_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = var.kms_key_arn
    }
    # One request to KMS for many objects instead of one per object.
    bucket_key_enabled = var.kms_key_arn == null ? null : true
  }
}

resource "aws_s3_bucket_policy" "this" {
  count = var.create_bucket ? 1 : 0

  bucket = aws_s3_bucket.this[0].id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "OnlyTls"
        Effect    = "Deny"
        Principal = "*"
        Action    = "s3:*"
        Resource  = [local.bucket_arn, "${local.bucket_arn}/*"]
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
      {
        # Objects of the root are created and never overwritten: every PUT of Tidelake has `If-None-Match: *`. So no role can
        # replace an object, whatever its policy allows. Nothing there uses multipart uploads, which S3 would refuse as well;
        # `results/` is, and `clock/` holds nothing that is kept.
        Sid       = "CreateOnly"
        Effect    = "Deny"
        Principal = "*"
        Action    = "s3:PutObject"
        Resource  = [for part in ["meta", "log", "data", "idem"] : "${local.bucket_arn}/${var.prefix}/${part}/*"]
        Condition = { Null = { "s3:if-none-match" = "true" } }
      },
    ]
  })

  # S3 refuses a policy while the public access block is changing.
  depends_on = [aws_s3_bucket_public_access_block.this]
}

resource "aws_s3_bucket_versioning" "this" {
  count = local.versioned ? 1 : 0

  bucket = aws_s3_bucket.this[0].id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  #checkov:skip=CKV_AWS_300:The rule unfinished-uploads does that; checkov overlooks it beside rules that are dynamic
  count = var.create_bucket && var.lifecycle_rules ? 1 : 0

  bucket = aws_s3_bucket.this[0].id

  rule {
    id     = "results"
    status = "Enabled"

    filter {
      prefix = "${var.prefix}/results/"
    }

    expiration {
      days = var.results_days
    }
  }

  # Large results use multipart uploads; unfinished uploads of a killed function would be billed without being listed.
  rule {
    id     = "unfinished-uploads"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }

  dynamic "rule" {
    for_each = length(var.tiers) > 0 ? [var.tiers] : []

    content {
      id     = "tiers"
      status = "Enabled"

      filter {
        and {
          prefix                   = "${var.prefix}/data/"
          object_size_greater_than = 128 * 1024
        }
      }

      dynamic "transition" {
        for_each = rule.value

        content {
          days          = transition.value.days
          storage_class = transition.value.class
        }
      }
    }
  }

  dynamic "rule" {
    for_each = local.versioned ? [var.noncurrent_days] : []

    content {
      id     = "deleted"
      status = "Enabled"

      filter {}

      noncurrent_version_expiration {
        noncurrent_days = rule.value
      }

      expiration {
        expired_object_delete_marker = true
      }
    }
  }

  depends_on = [aws_s3_bucket_versioning.this]
}
