//! Geo points in all their notations. A geohash is refused as a malformed value.

use firn_segment::schema::Class;

use super::coerce::{self, Coerced, Scalar};
use super::document::Slot;
use super::map::{Kind, Located, Outcome, Pass, Stop};

impl Pass<'_> {
    /// Reads an array or object for a geo point: one point, or several.
    pub(super) fn geo_point(&mut self, index: u32) -> Outcome {
        let start = self.reader.position;
        let found = match self.kind()? {
            Kind::Object => self.geo_object()?,
            Kind::Array if self.starts_with_number()? => self.coordinates()?,
            _ => return self.elements(|pass| pass.leaf(index)),
        };
        match found {
            Ok((lat, lon)) => self.push_point(index, lat, lon),
            Err(reason) => {
                // The parser may have stopped anywhere within the value.
                self.reader.position = start;
                self.reader.skip_value()?;
                self.malformed(index, None, reason)
            }
        }
    }

    /// Reads a string for a geo point.
    pub(super) fn geo_text(&mut self, index: u32, value: &mut Located<'_>) -> Outcome {
        let found = match value.scalar {
            Scalar::Text(text) => coerce::point(text),
            _ => Err("geo_point expected".to_owned()),
        };
        match found {
            Ok((lat, lon)) => self.push_point(index, lat, lon),
            Err(reason) => self.malformed(index, Some(value), reason),
        }
    }

    fn push_point(&mut self, index: u32, lat: f64, lon: f64) -> Outcome {
        let leaf = &self.compiled.leaves[index as usize];
        let class = if leaf.class == Class::None {
            Class::None
        } else {
            Class::Number
        };
        self.push(leaf.path + 1, class, Slot::F64(lat))?;
        self.push(leaf.path + 2, class, Slot::F64(lon))
    }

    fn starts_with_number(&mut self) -> Result<bool, Stop> {
        let start = self.reader.position;
        self.reader.position += 1;
        let byte = self.reader.peek()?;
        self.reader.position = start;
        Ok(byte == b'-' || byte.is_ascii_digit())
    }

    /// Reads `[lon, lat]`; a third number is the altitude and is ignored.
    fn coordinates(&mut self) -> Result<Coerced<(f64, f64)>, Stop> {
        let mut numbers = Vec::with_capacity(3);
        self.elements(|pass| {
            let number = pass.number()?;
            if numbers.len() < 4 {
                numbers.push(number);
            }
            Ok(())
        })?;
        Ok(match numbers[..] {
            [Some(lon), Some(lat)] | [Some(lon), Some(lat), Some(_)] => coerce::check_point(lat, lon),
            _ => Err("a point takes two numbers, [lon, lat]".to_owned()),
        })
    }

    /// Reads `{"lat": …, "lon": …}` or GeoJSON.
    fn geo_object(&mut self) -> Result<Coerced<(f64, f64)>, Stop> {
        let (mut lat, mut lon, mut point) = (None, None, None);
        self.reader.position += 1;
        if !self.reader.take(b'}')? {
            loop {
                let raw = self.key()?;
                let text = self.reader.text();
                match &text[raw.start..raw.end] {
                    "lat" => lat = self.number()?,
                    "lon" => lon = self.number()?,
                    "coordinates" if self.reader.peek()? == b'[' && self.starts_with_number()? => {
                        point = Some(self.coordinates()?);
                    }
                    "type" => self.reader.skip_value()?,
                    other => {
                        return Ok(Err(format!(
                            "field must be either [lat], [lon], [type] or [coordinates], but got [{other}]"
                        )));
                    }
                }
                if !self.reader.more(b'}')? {
                    break;
                }
            }
        }
        Ok(match (lat, lon, point) {
            (_, _, Some(point)) => point,
            (Some(lat), Some(lon), None) => coerce::check_point(lat, lon),
            (None, ..) => Err("field [lat] missing or not a number".to_owned()),
            _ => Err("field [lon] missing or not a number".to_owned()),
        })
    }

    /// Reads a number, or a string that contains one.
    fn number(&mut self) -> Result<Option<f64>, Stop> {
        let mut number = None;
        match self.kind()? {
            Kind::Scalar => self.scalar(|_, value| {
                number = value
                    .scalar
                    .as_text()
                    .trim()
                    .parse()
                    .ok()
                    .filter(|number: &f64| number.is_finite());
                Ok(())
            })?,
            _ => self.reader.skip_value()?,
        }
        Ok(number)
    }
}
