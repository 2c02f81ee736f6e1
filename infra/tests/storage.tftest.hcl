mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name = "tidelake"
}

run "a_bucket_is_private_encrypted_and_without_versions" {
  module {
    source = "./modules/storage"
  }

  assert {
    condition     = aws_s3_bucket.this[0].bucket == "tidelake-123456789012-us-east-1" && !aws_s3_bucket.this[0].force_destroy
    error_message = "The bucket has a name of its own and is not deleted with what is in it."
  }

  assert {
    condition     = length(aws_s3_bucket_versioning.this) == 0
    error_message = "Versioning is off."
  }

  assert {
    condition = alltrue([
      aws_s3_bucket_public_access_block.this[0].block_public_acls,
      aws_s3_bucket_public_access_block.this[0].block_public_policy,
      aws_s3_bucket_public_access_block.this[0].ignore_public_acls,
      aws_s3_bucket_public_access_block.this[0].restrict_public_buckets,
    ])
    error_message = "Nothing is public."
  }

  assert {
    condition     = aws_s3_bucket_ownership_controls.this[0].rule[0].object_ownership == "BucketOwnerEnforced"
    error_message = "The account owns all objects."
  }

  assert {
    condition     = one(aws_s3_bucket_server_side_encryption_configuration.this[0].rule).apply_server_side_encryption_by_default[0].sse_algorithm == "AES256"
    error_message = "S3 encrypts with keys that cost nothing."
  }

  assert {
    condition = jsonencode([for s in jsondecode(aws_s3_bucket_policy.this[0].policy).Statement : s if s.Sid == "OnlyTls"]) == jsonencode([{
      Sid       = "OnlyTls"
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = ["arn:aws:s3:::tidelake-123456789012-us-east-1", "arn:aws:s3:::tidelake-123456789012-us-east-1/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }])
    error_message = "Plain HTTP is refused, for the bucket and for its objects."
  }

  assert {
    condition = jsonencode([for s in jsondecode(aws_s3_bucket_policy.this[0].policy).Statement : s if s.Sid != "OnlyTls"]) == jsonencode([{
      Sid       = "CreateOnly"
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:PutObject"
      Resource  = [for part in ["meta", "log", "data", "idem"] : "arn:aws:s3:::tidelake-123456789012-us-east-1/tidelake/${part}/*"]
      Condition = { Null = { "s3:if-none-match" = "true" } }
    }])
    error_message = "Nobody overwrites an object of the root: a PUT that does not say If-None-Match is refused there, and nowhere else."
  }

  assert {
    condition     = output.url == "s3://tidelake-123456789012-us-east-1/tidelake" && output.store.kms_key_arn == null
    error_message = "The root lies under the prefix."
  }
}

run "results_expire_and_uploads_end" {
  module {
    source = "./modules/storage"
  }

  assert {
    condition     = aws_s3_bucket_lifecycle_configuration.this[0].rule[*].id == tolist(["results", "unfinished-uploads"])
    error_message = "There are two rules without tiers and without versions."
  }

  assert {
    condition     = aws_s3_bucket_lifecycle_configuration.this[0].rule[0].filter[0].prefix == "tidelake/results/" && aws_s3_bucket_lifecycle_configuration.this[0].rule[0].expiration[0].days == 1
    error_message = "Only results expire, after a day."
  }

  assert {
    condition     = aws_s3_bucket_lifecycle_configuration.this[0].rule[1].abort_incomplete_multipart_upload[0].days_after_initiation == 1
    error_message = "Unfinished uploads end after a day."
  }
}

run "tiers_are_for_large_data_files_only" {
  module {
    source = "./modules/storage"
  }

  variables {
    prefix = "team/root"
    tiers  = [{ days = 30, class = "STANDARD_IA" }, { days = 90, class = "GLACIER_IR" }]
  }

  assert {
    condition     = aws_s3_bucket_lifecycle_configuration.this[0].rule[2].id == "tiers" && aws_s3_bucket_lifecycle_configuration.this[0].rule[2].filter[0].and[0].prefix == "team/root/data/" && aws_s3_bucket_lifecycle_configuration.this[0].rule[2].filter[0].and[0].object_size_greater_than == 131072
    error_message = "Versions, segments and small files stay where they are."
  }

  assert {
    condition     = jsonencode({ for t in aws_s3_bucket_lifecycle_configuration.this[0].rule[2].transition : t.storage_class => t.days }) == jsonencode({ STANDARD_IA = 30, GLACIER_IR = 90 })
    error_message = "Each tier has its age."
  }
}

run "the_lifecycle_can_be_left_out" {
  module {
    source = "./modules/storage"
  }

  variables {
    lifecycle_rules = false
  }

  assert {
    condition     = length(aws_s3_bucket_lifecycle_configuration.this) == 0
    error_message = "There is no lifecycle configuration."
  }
}

run "a_key_encrypts_by_the_bucket" {
  module {
    source = "./modules/storage"
  }

  variables {
    kms_key_arn = "arn:aws:kms:us-east-1:123456789012:key/k"
  }

  assert {
    condition     = one(aws_s3_bucket_server_side_encryption_configuration.this[0].rule).apply_server_side_encryption_by_default[0].kms_master_key_id == "arn:aws:kms:us-east-1:123456789012:key/k" && one(aws_s3_bucket_server_side_encryption_configuration.this[0].rule).bucket_key_enabled
    error_message = "The key encrypts, and is asked once for many objects."
  }

  assert {
    condition     = output.store.kms_key_arn == "arn:aws:kms:us-east-1:123456789012:key/k"
    error_message = "The other modules hear of the key."
  }
}

run "an_existing_bucket_is_left_as_it_is" {
  module {
    source = "./modules/storage"
  }

  variables {
    create_bucket = false
    bucket        = "ours"
  }

  assert {
    condition = 0 == sum([
      length(aws_s3_bucket.this),
      length(aws_s3_bucket_policy.this),
      length(aws_s3_bucket_lifecycle_configuration.this),
      length(aws_s3_bucket_versioning.this),
      length(aws_s3_bucket_public_access_block.this),
      length(aws_s3_bucket_ownership_controls.this),
      length(aws_s3_bucket_server_side_encryption_configuration.this),
      length(aws_s3_bucket_replication_configuration.this),
    ])
    error_message = "Nothing of the bucket is Terraform's."
  }

  assert {
    condition     = output.url == "s3://ours/tidelake"
    error_message = "The root lies in that bucket."
  }
}

run "replication_needs_versions_and_lets_deleted_ones_go" {
  module {
    source = "./modules/storage"
  }

  variables {
    replicate_to = { bucket_arn = "arn:aws:s3:::copy" }
  }

  assert {
    condition     = aws_s3_bucket_versioning.this[0].versioning_configuration[0].status == "Enabled"
    error_message = "S3 replicates only with versioning."
  }

  assert {
    condition     = aws_s3_bucket_lifecycle_configuration.this[0].rule[2].id == "deleted" && aws_s3_bucket_lifecycle_configuration.this[0].rule[2].noncurrent_version_expiration[0].noncurrent_days == 1
    error_message = "What was deleted goes after a day."
  }

  assert {
    condition     = aws_s3_bucket_replication_configuration.this[0].rule[0].filter[0].prefix == "tidelake/" && aws_s3_bucket_replication_configuration.this[0].rule[0].delete_marker_replication[0].status == "Enabled"
    error_message = "The copy holds what the root holds, deletes included."
  }

  assert {
    condition     = jsonencode([for s in jsondecode(aws_iam_role_policy.replication[0].policy).Statement : s.Resource if s.Sid == "WriteReplica"]) == jsonencode([["arn:aws:s3:::copy/tidelake/*"]])
    error_message = "The role writes to the copy's root alone."
  }
}

run "a_replica_keeps_versions_as_S3_requires" {
  module {
    source = "./modules/storage"
  }

  variables {
    is_replica = true
  }

  assert {
    condition     = length(aws_s3_bucket_versioning.this) == 1 && length(aws_s3_bucket_replication_configuration.this) == 0
    error_message = "It has versions and replicates nothing."
  }
}

run "a_class_that_needs_a_restore_is_refused" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    tiers = [{ days = 90, class = "DEEP_ARCHIVE" }]
  }

  expect_failures = [var.tiers]
}

run "standard_ia_is_not_for_young_files" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    tiers = [{ days = 7, class = "STANDARD_IA" }]
  }

  expect_failures = [var.tiers]
}

run "an_existing_bucket_has_to_be_named" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    create_bucket = false
  }

  expect_failures = [var.bucket]
}

run "a_prefix_has_no_slashes_around_it" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    prefix = "/data/"
  }

  expect_failures = [var.prefix]
}

run "versions_without_a_limit_are_refused" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    is_replica      = true
    lifecycle_rules = false
  }

  expect_failures = [var.lifecycle_rules]
}

run "one_key_for_two_buckets_is_refused" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    kms_key_arn  = "arn:aws:kms:us-east-1:123456789012:key/k"
    replicate_to = { bucket_arn = "arn:aws:s3:::copy" }
  }

  expect_failures = [var.replicate_to]
}

run "tiers_are_listed_by_age" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    tiers = [{ days = 90, class = "STANDARD_IA" }, { days = 60, class = "GLACIER_IR" }]
  }

  expect_failures = [var.tiers]
}

run "two_tiers_of_one_age_are_refused" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    tiers = [{ days = 90, class = "INTELLIGENT_TIERING" }, { days = 90, class = "GLACIER_IR" }]
  }

  expect_failures = [var.tiers]
}

run "files_do_not_go_back_to_a_warmer_class" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    tiers = [{ days = 30, class = "INTELLIGENT_TIERING" }, { days = 90, class = "STANDARD_IA" }]
  }

  expect_failures = [var.tiers]
}

run "standard_ia_is_for_thirty_days" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    tiers = [{ days = 30, class = "STANDARD_IA" }, { days = 45, class = "GLACIER_IR" }]
  }

  expect_failures = [var.tiers]
}

run "all_tiers_one_after_the_other" {
  module {
    source = "./modules/storage"
  }

  variables {
    tiers = [{ days = 30, class = "STANDARD_IA" }, { days = 60, class = "INTELLIGENT_TIERING" }, { days = 90, class = "GLACIER_IR" }]
  }

  assert {
    condition     = length(aws_s3_bucket_lifecycle_configuration.this[0].rule[2].transition) == 3
    error_message = "Files get colder with age."
  }
}

run "replication_can_be_held_to_time" {
  module {
    source = "./modules/storage"
  }

  variables {
    replicate_to = { bucket_arn = "arn:aws:s3:::copy", time_control = true }
  }

  assert {
    condition = alltrue([
      for destination in aws_s3_bucket_replication_configuration.this[0].rule[0].destination :
      destination.replication_time[0].time[0].minutes == 15 && destination.metrics[0].event_threshold[0].minutes == 15
    ])
    error_message = "S3 copies within a quarter of an hour, and says how far it is."
  }
}

run "what_is_no_bucket_is_refused" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    replicate_to = { bucket_arn = "copy" }
    tags         = { "aws:name" = "tidelake" }
  }

  expect_failures = [var.replicate_to, var.tags]
}
