# frozen_string_literal: true

# One search over everything that is written.
class SearchController < ApplicationController
  SOURCES = { Issue => %i[title description], Comment => %i[body], WikiPage => %i[title body], Message => %i[body],
              NewsItem => %i[title body], Document => %i[title body], Changeset => %i[message] }.freeze

  def show
    @words = params[:q].to_s.split.first(4)
    @found = @words.empty? ? {} : SOURCES.to_h { |model, columns| [model, matching(model, columns)] }
    respond_to do |format|
      format.html
      format.json { render json: @found.transform_keys(&:name).transform_values { |rows| rows.map { |row| { id: row.id, name: row.name } } } }
    end
  end

  private

  def matching(model, columns)
    @words.reduce(model.order(:id).limit(15)) do |found, word|
      found.merge(columns.map { |column| model.where(model.arel_table[column].matches("%#{model.sanitize_sql_like(word)}%")) }.reduce(:or))
    end.to_a
  end
end
