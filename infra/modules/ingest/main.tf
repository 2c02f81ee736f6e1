locals {
  # Defaults of this module. The function module has all others and validates every value.
  function = merge(var.function, {
    name    = try(coalesce(var.function.name), "tidelake-ingest-http")
    memory  = try(coalesce(var.function.memory), 512)
    timeout = try(coalesce(var.function.timeout), 30)
  })
}

module "function" {
  source = "../function"

  settings    = local.function
  names       = { settings = keys(local.function), url = keys(var.url) }
  description = "Tidelake: writes over HTTP"
  rights      = "write"

  # Write responses are short and need no streaming.
  url = merge(var.url, { invoke_mode = "BUFFERED" })

  environment = {
    TIDELAKE_AUTO_CREATE_DATABASE = tostring(var.auto_create_database)
    TIDELAKE_MAX_BODY             = var.max_body
  }
}
