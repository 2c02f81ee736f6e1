# A copy of the root in another region. Deletes are replicated too, so the replica converges to the root. S3 copies
# objects in no order, so a version can arrive minutes before the objects it references: until these arrive, queries of the replica can
# fail. Rows in log segments that have not arrived are not visible.

locals {
  replication = var.replicate_to == null ? [] : [var.replicate_to]
}

resource "aws_iam_role" "replication" {
  count = length(local.replication)

  name_prefix = "${var.name}-replicate-"
  tags        = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "s3.amazonaws.com" }
      Action    = "sts:AssumeRole"
      Condition = {
        StringEquals = { "aws:SourceAccount" = data.aws_caller_identity.current.account_id }
        ArnLike      = { "aws:SourceArn" = local.bucket_arn }
      }
    }]
  })
}

resource "aws_iam_role_policy" "replication" {
  count = length(local.replication)

  name = "replicate"
  role = aws_iam_role.replication[0].id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Sid      = "ReadConfiguration"
          Effect   = "Allow"
          Action   = ["s3:GetReplicationConfiguration", "s3:ListBucket"]
          Resource = [local.bucket_arn]
        },
        {
          Sid      = "ReadObjects"
          Effect   = "Allow"
          Action   = ["s3:GetObjectVersionForReplication", "s3:GetObjectVersionAcl", "s3:GetObjectVersionTagging"]
          Resource = ["${local.bucket_arn}/${var.prefix}/*"]
        },
        {
          Sid      = "WriteReplica"
          Effect   = "Allow"
          Action   = ["s3:ReplicateObject", "s3:ReplicateDelete", "s3:ReplicateTags"]
          Resource = ["${var.replicate_to.bucket_arn}/${var.prefix}/*"]
        },
      ],
      var.kms_key_arn == null ? [] : [
        { Sid = "Decrypt", Effect = "Allow", Action = ["kms:Decrypt"], Resource = [var.kms_key_arn] },
      ],
      var.replicate_to.kms_key_arn == null ? [] : [
        { Sid = "Encrypt", Effect = "Allow", Action = ["kms:Encrypt", "kms:GenerateDataKey"], Resource = [var.replicate_to.kms_key_arn] },
      ],
    )
  })
}

resource "aws_s3_bucket_replication_configuration" "this" {
  count = length(local.replication)

  bucket = aws_s3_bucket.this[0].id
  role   = aws_iam_role.replication[0].arn

  rule {
    id     = "root"
    status = "Enabled"

    filter {
      prefix = "${var.prefix}/"
    }

    delete_marker_replication {
      status = "Enabled"
    }

    dynamic "source_selection_criteria" {
      for_each = var.kms_key_arn == null ? [] : [true]

      content {
        sse_kms_encrypted_objects {
          status = "Enabled"
        }
      }
    }

    destination {
      bucket = var.replicate_to.bucket_arn

      dynamic "replication_time" {
        for_each = var.replicate_to.time_control ? [15] : []

        content {
          status = "Enabled"

          time {
            minutes = replication_time.value
          }
        }
      }

      dynamic "metrics" {
        for_each = var.replicate_to.time_control ? [15] : []

        content {
          status = "Enabled"

          event_threshold {
            minutes = metrics.value
          }
        }
      }

      dynamic "encryption_configuration" {
        for_each = var.replicate_to.kms_key_arn == null ? [] : [var.replicate_to.kms_key_arn]

        content {
          replica_kms_key_id = encryption_configuration.value
        }
      }
    }
  }

  depends_on = [aws_s3_bucket_versioning.this]
}
