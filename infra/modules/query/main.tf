locals {
  # Defaults of this module. The function module has all others and validates every value.
  function = merge(var.function, {
    name    = try(coalesce(var.function.name), "tidelake-query-http")
    memory  = try(coalesce(var.function.memory), 1024)
    timeout = try(coalesce(var.function.timeout), 60)
  })
}

module "function" {
  source = "../function"

  settings    = local.function
  names       = { settings = keys(local.function), url = keys(var.url) }
  description = "Tidelake: SQL over HTTP, read only"
  rights      = "query"

  url = merge(var.url, { invoke_mode = var.response == "stream" ? "RESPONSE_STREAM" : "BUFFERED" })

  environment = {
    # Ends some seconds before the platform ends the invocation, so that the client gets an error.
    TIDELAKE_QUERY_TIMEOUT = "${local.function.timeout - min(5, ceil(local.function.timeout / 4))}s"
    TIDELAKE_RESPONSE      = var.response
  }
}
