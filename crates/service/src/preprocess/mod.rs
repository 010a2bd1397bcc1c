//! Preprocessing for recommender models: raw rows arrive, and features are stored in memory.
//!
//! A [`Pipeline`] is declared in TOML. Columns are numbered from 0. Columns without operators are not
//! changed.
//!
//! ```
//! use weft_service::preprocess::Pipeline;
//!
//! let pipeline: Pipeline = r#"
//!     row = { int32 = 3 }
//!     columns."0..=1" = ["neg2zero", "log 1"]
//!     columns.2 = ["modulus 10"]
//! "#
//! .parse()
//! .unwrap();
//! let mut row: Vec<u8> = [-5_i32, 0, 123].into_iter().flat_map(i32::to_le_bytes).collect();
//! pipeline.transform(0, &mut row);
//! assert_eq!(row[..8], [0; 8]);
//! assert_eq!(row[8..], 3_i32.to_le_bytes());
//! ```

mod hash;
mod image;
mod log;
mod operator;
mod pipeline;

pub use image::{BORDER_SETS, COLUMNS, Column, Divisor, Image, ImageError, Last, PIPELINES, Row};
pub use operator::{MISSING, NoOperator, Operator};
pub use pipeline::{Pipeline, PipelineError};
