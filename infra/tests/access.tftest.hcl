# Rights in the root: each policy's complete statements on the root, action by action.

variables {
  store = {
    url        = "s3://bucket/root"
    bucket_arn = "arn:aws:s3:::bucket"
    prefix     = "root"
  }
}

run "rights_are_those_of_the_layout" {
  module {
    source = "./modules/access"
  }

  assert {
    condition = jsonencode({ for s in output.write : s.Sid => { actions = s.Action, resources = s.Resource } }) == jsonencode({
      ReadRoot                  = { actions = ["s3:GetObject"], resources = ["arn:aws:s3:::bucket/root/*"] }
      ListRoot                  = { actions = ["s3:ListBucket"], resources = ["arn:aws:s3:::bucket"] }
      CreateVersionsAndSegments = { actions = ["s3:PutObject"], resources = [for part in ["meta", "log", "idem", "clock"] : "arn:aws:s3:::bucket/root/${part}/*"] }
      DeleteClockProbes         = { actions = ["s3:DeleteObject"], resources = ["arn:aws:s3:::bucket/root/clock/*"] }
    })
    error_message = "A writer creates versions, segments, keys and probes, deletes probes, and puts no data files."
  }

  assert {
    condition = jsonencode({ for s in output.compact : s.Sid => { actions = s.Action, resources = s.Resource } }) == jsonencode({
      ReadRoot            = { actions = ["s3:GetObject"], resources = ["arn:aws:s3:::bucket/root/*"] }
      ListRoot            = { actions = ["s3:ListBucket"], resources = ["arn:aws:s3:::bucket"] }
      WriteAndCollectRoot = { actions = ["s3:PutObject", "s3:DeleteObject"], resources = ["arn:aws:s3:::bucket/root/*"] }
    })
    error_message = "Compaction puts and deletes within the root."
  }

  assert {
    condition = jsonencode({ for s in output.query : s.Sid => { actions = s.Action, resources = s.Resource } }) == jsonencode({
      ReadRoot         = { actions = ["s3:GetObject"], resources = ["arn:aws:s3:::bucket/root/*"] }
      ListRoot         = { actions = ["s3:ListBucket"], resources = ["arn:aws:s3:::bucket"] }
      KeepLargeResults = { actions = ["s3:PutObject", "s3:AbortMultipartUpload"], resources = ["arn:aws:s3:::bucket/root/results/*"] }
    })
    error_message = "A reader puts results and nothing else."
  }

  assert {
    condition = alltrue([
      for statements in [output.write, output.compact, output.query] :
      jsonencode([for s in statements : s.Condition if s.Sid == "ListRoot"]) == jsonencode([{ StringLikeIfExists = { "s3:prefix" = ["root/*"] } }])
    ])
    error_message = "A listing names the root; a GET of a missing key, which names no prefix, is told that it is missing."
  }
}

run "another_engine_reads_data_files_alone" {
  module {
    source = "./modules/access"
  }

  assert {
    condition = jsonencode(output.data) == jsonencode([
      {
        Sid      = "ReadDataFiles"
        Effect   = "Allow"
        Action   = ["s3:GetObject"]
        Resource = ["arn:aws:s3:::bucket/root/data/*"]
      },
      {
        Sid       = "ListDataFiles"
        Effect    = "Allow"
        Action    = ["s3:ListBucket"]
        Resource  = ["arn:aws:s3:::bucket"]
        Condition = { StringLike = { "s3:prefix" = ["root/data", "root/data/*"] } }
      },
    ])
    error_message = "It gets and lists what is under data/, and a listing has to say so."
  }
}

run "a_key_is_used_and_no_more" {
  module {
    source = "./modules/access"
  }

  variables {
    store = {
      url         = "s3://bucket/root"
      bucket_arn  = "arn:aws:s3:::bucket"
      prefix      = "root"
      kms_key_arn = "arn:aws:kms:us-east-1:123456789012:key/k"
    }
  }

  assert {
    condition = alltrue([
      for statements in [output.write, output.compact, output.query] :
      jsonencode({ for s in statements : s.Sid => s.Action if s.Resource[0] == "arn:aws:kms:us-east-1:123456789012:key/k" }) == jsonencode({ Decrypt = ["kms:Decrypt"], Encrypt = ["kms:GenerateDataKey"] })
    ])
    error_message = "All decrypt and encrypt with the key."
  }

  assert {
    condition     = jsonencode([for s in output.data : s.Action if s.Resource[0] == "arn:aws:kms:us-east-1:123456789012:key/k"]) == jsonencode([["kms:Decrypt"]])
    error_message = "Another engine only decrypts."
  }
}

run "what_is_no_bucket_is_refused" {
  command = plan

  module {
    source = "./modules/access"
  }

  variables {
    store = { url = "s3://bucket/root", bucket_arn = "arn:aws:s3:::bucket/*", prefix = "root" }
  }

  expect_failures = [var.store]
}

run "a_root_outside_its_prefix_is_refused" {
  command = plan

  module {
    source = "./modules/access"
  }

  variables {
    store = { url = "s3://bucket/root", bucket_arn = "arn:aws:s3:::bucket", prefix = "other" }
  }

  expect_failures = [var.store]
}

run "what_is_no_url_is_refused" {
  command = plan

  module {
    source = "./modules/access"
  }

  variables {
    store = { url = "bucket/root", bucket_arn = "arn:aws:s3:::bucket", prefix = "root" }
  }

  expect_failures = [var.store]
}

run "a_whole_bucket_is_refused" {
  command = plan

  module {
    source = "./modules/access"
  }

  variables {
    store = { url = "s3://bucket", bucket_arn = "arn:aws:s3:::bucket", prefix = "root" }
  }

  expect_failures = [var.store]
}
