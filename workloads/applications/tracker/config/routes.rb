# frozen_string_literal: true

Rails.application.routes.draw do
  root "dashboard#show"
  get "search", to: "search#show"
  resource :session, only: %i[new create destroy]
  get "projects/:project_id/board", to: "issues#board", as: :project_board
  get "projects/:id/report", to: "projects#report", as: :project_report

  resources :organizations,
            :teams,
            :roles,
            :users,
            :projects,
            :memberships,
            :categories,
            :components,
            :milestones,
            :sprints,
            :releases,
            :issue_types,
            :priorities,
            :statuses,
            :issues,
            :comments,
            :reactions,
            :labels,
            :labellings,
            :watchers,
            :dependencies,
            :attachments,
            :time_entries,
            :checklists,
            :checklist_items,
            :custom_fields,
            :custom_values,
            :activities,
            :changesets,
            :file_changes,
            :wiki_pages,
            :wiki_revisions,
            :forums,
            :topics,
            :messages,
            :news_items,
            :documents,
            :saved_queries,
            :notifications,
            :customers,
            :contacts,
            :products,
            :invoices,
            :invoice_lines,
            :settings
end
