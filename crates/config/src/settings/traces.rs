//! Traces of requests, for OpenTelemetry.

use super::form::{collector, ratio, text};
use super::key::section;

section! {
    /// Traces of requests.
    pub struct Traces {
        /// Where Paceline sends spans: the URL of a collector that accepts OTLP over HTTP as JSON, without TLS; "" sends none
        otlp_endpoint: String = String::new(), collector();
        /// The part of the requests without a trace context that are traced; requests with one are traced if it is sampled
        otlp_sample_ratio: f64 = 0.0, ratio();
        /// The name of the service in spans (service.name)
        otlp_service_name: String = "paceline".to_owned(), text();
    }
}
